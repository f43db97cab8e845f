#include "kime/io/line_reader.h"

#include <fcntl.h>
#include <rapidcheck.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "named_pipe.h"
#include "pack_text.h"
#include "temp_folder.h"

using kime::Line;
using kime::LineReader;
using Next = kime::LineReader::Next;

namespace {

#ifdef KIME_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr std::size_t kNoLimit = std::size_t{1} << 30;

/// What a reader gives: "3:text" for each line, "3!" for one that is too long; then "end", or the error's message.
std::vector<std::string> all(LineReader& reader) {
  std::vector<std::string> seen;
  for (Line line;;) {
    const auto next = reader.next(line);
    if (!next) {
      seen.push_back(next.error().text());
      return seen;
    }
    if (*next != Next::line) {
      seen.push_back(*next == Next::end ? "end" : "stopped");
      return seen;
    }
    std::string shown = std::to_string(line.number);
    shown += line.too_long ? "!" : ":";
    seen.push_back(shown.append(line.text));
  }
}

std::vector<std::string> all_of(std::string_view bytes, std::size_t max_line = kNoLimit) {
  const TempFolder folder;
  auto reader = LineReader::open(folder.write("in", bytes), max_line);
  REQUIRE(reader);
  return all(*reader);
}

std::string open_error(const std::string& path) {
  const auto reader = LineReader::open(path, kNoLimit);
  return reader ? "" : reader.error().text();
}

using Seen = std::vector<std::string>;

}  // namespace

TEST_CASE("lines are numbered, line ends dropped, blank lines left out") {
  CHECK(all_of("a\nb\n") == Seen{"1:a", "2:b", "end"});
  CHECK(all_of("a\r\nb\r\n") == Seen{"1:a", "2:b", "end"});
  CHECK(all_of("a\n\n \t\r\n b \nc") == Seen{"1:a", "4: b ", "5:c", "end"});
  CHECK(all_of("a\r") == Seen{"1:a", "end"});
  CHECK(all_of("a\rb\n") == Seen{"1:a\rb", "end"});
  CHECK(all_of("") == Seen{"end"});
  CHECK(all_of("\n\n  \n") == Seen{"end"});
  CHECK(all_of(std::string_view("a\0b\n", 4)) == Seen{std::string("1:a\0b", 5), "end"});
}

TEST_CASE("a byte-order mark is skipped at the start only") {
  CHECK(all_of("\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n") == Seen{"1:{}", "2:\xef\xbb\xbf{}", "end"});
  CHECK(all_of("\xef\xbb\xbf") == Seen{"end"});
  CHECK(all_of("\xef\xbb") == Seen{"1:\xef\xbb", "end"});
  CHECK(all_of("\xef\xbb\xbf\nx") == Seen{"2:x", "end"});
  CHECK(all_of("\xef\xbb\xbf"
               "1234\n",
               4) == Seen{"1:1234", "end"});
}

TEST_CASE("a line over the limit is told, and only that one") {
  CHECK(all_of("1234\n12345\n1234\r\n12345\r\n\n1234", 4) == Seen{"1:1234", "2!", "3:1234", "4!", "6:1234", "end"});
  CHECK(all_of("12345", 4) == Seen{"1!", "end"});
  const std::string large(3'000'000, 'x');
  CHECK(all_of("a\n" + large + "\nb\n" + large, 1000) == Seen{"1:a", "2!", "3:b", "4!", "end"});
  CHECK(all_of(large + "\nb", 3'000'000) == Seen{"1:" + large, "2:b", "end"});
  CHECK(all_of(large + "\nb", 2'999'999) == Seen{"1!", "2:b", "end"});
}

TEST_CASE("a line of 100 MiB costs no more memory than the limit") {
  const TempFolder folder;
  const std::string path = folder.path("in");
  {
    std::ofstream file(path, std::ios::binary);
    const std::string piece(std::size_t{1} << 20, 'x');
    for (int i = 0; i < 100; ++i) {
      file << piece;
    }
    file << "\nb\n";
  }
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // In KiB.
  };
  const long before = peak();
  auto reader = LineReader::open(path, std::size_t{8} << 20);
  REQUIRE(reader);
  CHECK(all(*reader) == Seen{"1!", "2:b", "end"});
  if (!kSanitized) {  // A sanitizer's memory is not that of the reader.
    CHECK(peak() - before < 12 * 1024);
  }
}

TEST_CASE("files that have been read to their ends hold no memory") {
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    long size = 0;
    long pages = 0;
    file >> size >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  const TempFolder folder;
  const std::string text = std::string(300'000, 'x') + "\n";
  const auto packing = GENERATE(0, 1, 2);
  const std::string path = folder.write("in", packing == 0 ? text : packing == 1 ? gzip(text) : zstd(text));
  const std::vector<std::string> paths(200, path);
  auto readers = kime::open_all(paths, kNoLimit);
  REQUIRE(readers);
  const long before = resident();
  const auto size = std::filesystem::file_size(path);
  for (auto& reader : *readers) {
    CHECK(all(reader).size() == 2);
    CHECK(all(reader) == Seen{"end"});
    CHECK(reader.file_position() == size);
  }
  if (!kSanitized) {
    CHECK(resident() - before < 10'000'000);
  }
}

TEST_CASE("any text is split as a simple splitter does, whatever the packing") {
  CHECK(rc::check("split", [] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("\n", "\r\n", "a", "{}", "  ", "\r", "\xc3\xa9", std::string(70000, 'y')));
    std::string text;
    for (const auto& piece : pieces) {
      text += piece;
    }
    Seen expected;
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t stop = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, stop - at);
      at = stop + 1;
      ++number;
      if (!line.empty() && line.back() == '\r') {
        line.pop_back();
      }
      if (line.size() > 100000) {
        expected.push_back(std::to_string(number) + "!");
      } else if (line.find_first_not_of(" \r") != std::string::npos) {
        expected.push_back(std::to_string(number) + ":" + line);
      }
    }
    expected.emplace_back("end");
    RC_ASSERT(all_of(text, 100000) == expected);
    RC_ASSERT(all_of(gzip(text), 100000) == expected);
    RC_ASSERT(all_of(zstd(text), 100000) == expected);
  }));
}

TEST_CASE("compressed files are told by their first bytes") {
  std::string text;
  Seen expected;
  for (int i = 1; i <= 50000; ++i) {
    text += "line " + std::to_string(i * 7919) + "\n";
    expected.push_back(std::to_string(i) + ":line " + std::to_string(i * 7919));
  }
  expected.emplace_back("end");
  const std::string first = text.substr(0, 100001);
  const std::string second = text.substr(100001);
  CHECK(all_of(gzip(text)) == expected);
  CHECK(all_of(zstd(text)) == expected);
  CHECK(all_of(gzip(first) + gzip("") + gzip(second)) == expected);
  CHECK(all_of(zstd(first) + zstd("") + zstd(second)) == expected);
  CHECK(all_of(gzip(text) + std::string(1000, '\0')) == expected);
  const std::string skippable(
      "\x50\x2a\x4d\x18\x03\x00\x00\x00"
      "abc",
      11);
  CHECK(all_of(skippable + zstd(text)) == expected);
  CHECK(all_of(gzip("\xef\xbb\xbf"
                    "a\r\n")) == Seen{"1:a", "end"});
  CHECK(all_of(gzip("")) == Seen{"end"});
  CHECK(all_of("(\xb5/\n") == Seen{"1:(\xb5/", "end"});
  CHECK(all_of("P") == Seen{"1:P", "end"});
  CHECK(all_of("\x1f") == Seen{"1:\x1f", "end"});
}

TEST_CASE("a truncated file gives its whole lines, then an error that says how far") {
  std::string text;
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    text += std::to_string(random()) + "\n";
  }
  const TempFolder folder;
  const auto broken = [&](const std::string& packed, std::size_t size) {
    auto reader = LineReader::open(folder.write("x.gz", packed.substr(0, size)), kNoLimit);
    REQUIRE(reader);
    auto seen = all(*reader);
    std::string message = seen.back();
    seen.pop_back();
    std::string read;
    for (const std::string& line : seen) {
      read.append(line, line.find(':') + 1).append("\n");
    }
    CHECK(text.substr(0, std::min(read.size(), text.size())) == read.substr(0, text.size()));
    return std::pair(message, seen.size());
  };
  const std::string gz = gzip(text);
  const std::string zst = zstd(text);
  const std::string name = folder.path("x.gz");

  auto [message, lines] = broken(gz, gz.size() / 2);
  CHECK(message.find(name + ": truncated: its gzip data breaks off after " + std::to_string(gz.size() / 2) + " bytes") == 0);
  CHECK(lines > 5000);
  std::tie(message, lines) = broken(gz, gz.size() - 1);
  CHECK(message.find("truncated") != std::string::npos);
  CHECK(lines == 20000);
  std::tie(message, lines) = broken(gz, 2);
  CHECK(message.find("truncated") != std::string::npos);
  std::tie(message, lines) = broken(gz + gz, gz.size() + 5);
  CHECK(message.find("truncated") != std::string::npos);
  CHECK(lines == 20000);
  std::tie(message, lines) = broken(zst, zst.size() / 2);
  CHECK(message.find(name + ": truncated: its zstd data breaks off after " + std::to_string(zst.size() / 2) + " bytes") == 0);
  std::tie(message, lines) = broken(zst, 4);
  CHECK(message.find("truncated") != std::string::npos);
}

TEST_CASE("damaged data is an error, not lines") {
  std::string text(100000, 'a');
  text += "\n";
  std::string gz = gzip(text);
  gz[gz.size() - 6] = static_cast<char>(gz[gz.size() - 6] ^ 1);  // In the check sum.
  auto seen = all_of(gz);
  CHECK(seen.back().find("damaged gzip data before byte") != std::string::npos);
  CHECK(seen.back().find("incorrect data check") != std::string::npos);
  seen = all_of(gzip("a\n") + "garbage\n");
  CHECK(seen.front() == "1:a");
  CHECK(seen.back().find("what follows the end is not gzip") != std::string::npos);
  std::string zst = zstd(text);
  seen = all_of(zst.substr(0, 6) + std::string(100, '\xff'));
  CHECK(seen.back().find("damaged zstd data") != std::string::npos);
  seen = all_of(zst + "garbage\n");
  CHECK(seen.back().find("damaged zstd data") != std::string::npos);
  CHECK(seen.size() == 2);
}

TEST_CASE("random bytes after a magic number never crash") {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = round % 2 == 0 ? gzip("{\"a\":1}\n{\"b\":2}\n") : zstd("{\"a\":1}\n{\"b\":2}\n");
    for (int change = 0; change < 3; ++change) {
      bytes[2 + random() % (bytes.size() - 2)] = static_cast<char>(random());
    }
    CHECK_FALSE(all_of(bytes).empty());
  }
}

TEST_CASE("what cannot be opened is said at once") {
  const TempFolder folder;
  CHECK(open_error(folder.path("missing")) == folder.path("missing") + ": No such file or directory");
  CHECK(open_error(folder.path("")) == folder.path("") + ": Is a directory");
  const std::string secret = folder.write("secret", "x\n");
  REQUIRE(chmod(secret.c_str(), 0) == 0);
  if (access(secret.c_str(), R_OK) != 0) {  // Root reads everything.
    CHECK(open_error(secret) == secret + ": Permission denied");
  }
}

TEST_CASE("a pipe tells whether it would wait") {
  const TempFolder folder;
  NamedPipe pipe(folder);
  auto reader = LineReader::open(pipe.path(), kNoLimit);
  REQUIRE(reader);
  CHECK_FALSE(reader->ready());
  pipe.write("one\ntw");
  CHECK(reader->ready());
  Line line;
  REQUIRE(reader->next(line));
  CHECK(line.text == "one");
  CHECK_FALSE(reader->ready());
  CHECK_FALSE(reader->ready());
  pipe.write("o\n");
  CHECK(reader->ready());
  CHECK(reader->ready());
  REQUIRE(reader->next(line));
  CHECK(line.text == "two");
  CHECK(line.number == 2);
  pipe.write("\n  \n");
  CHECK_FALSE(reader->ready());
  pipe.write("\x1f");
  CHECK_FALSE(reader->ready());
  pipe.close_writer();
  CHECK(reader->ready());
  CHECK(all(*reader) == Seen{"5:\x1f", "end"});
}

TEST_CASE("a packed pipe gives each line as soon as its bytes are there") {
  const TempFolder folder;
  for (const bool is_gzip : {true, false}) {
    CAPTURE(is_gzip);
    std::filesystem::remove(folder.path("pipe"));
    NamedPipe pipe(folder);
    auto reader = LineReader::open(pipe.path(), kNoLimit);
    REQUIRE(reader);
    const std::string first = is_gzip ? gzip("one\n") : zstd("one\n");
    pipe.write(first.substr(0, 3));
    CHECK_FALSE(reader->ready());
    pipe.write(first.substr(3));
    CHECK(reader->ready());
    Line line;
    REQUIRE(reader->next(line));
    CHECK(line.text == "one");
    CHECK_FALSE(reader->ready());
    pipe.close_writer();
    CHECK(all(*reader) == Seen{"end"});
  }
}

TEST_CASE("a wake descriptor ends a wait, and reading can go on") {
  const TempFolder folder;
  const NamedPipe pipe(folder);
  std::array<int, 2> wake{};
  REQUIRE(::pipe(wake.data()) == 0);
  auto reader = LineReader::open(pipe.path(), kNoLimit, wake[0]);
  REQUIRE(reader);
  pipe.write("half");
  CHECK_FALSE(reader->ready());
  std::thread waker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(::write(wake[1], "x", 1) == 1);
  });
  Line line;
  auto next = reader->next(line);
  waker.join();
  REQUIRE(next);
  CHECK(*next == Next::stopped);
  CHECK(reader->ready());
  char byte = 0;
  REQUIRE(::read(wake[0], &byte, 1) == 1);
  pipe.write(" a line\n");
  next = reader->next(line);
  REQUIRE(next);
  CHECK(*next == Next::line);
  CHECK(line.text == "half a line");
  close(wake[0]);
  close(wake[1]);
}
