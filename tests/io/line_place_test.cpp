// Where lines end, and beginning there: what a job goes on with.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kime/io/line_reader.h"
#include "pack_text.h"
#include "temp_folder.h"

using kime::ByteSource;
using kime::Line;
using kime::LinePlace;
using kime::LineRange;
using kime::LineReader;

namespace {

constexpr std::size_t kMaxLine = 40;

/// A line as it was read, with where it ends.
struct Told {
  std::string text;
  LinePlace after;
};

std::vector<Told> rest_of(const std::string& path, const LineRange& range) {
  auto reader = LineReader::open(path, kMaxLine);
  REQUIRE(reader);
  const auto kept = reader->keep_to(range);
  REQUIRE(kept);
  REQUIRE(*kept == LineReader::Next::line);
  std::vector<Told> told;
  for (Line line;;) {
    const auto next = reader->next(line);
    REQUIRE(next);
    if (*next != LineReader::Next::line) {
      return told;
    }
    std::string shown = std::to_string(line.number);
    shown += line.too_long ? "!" : ":";
    told.push_back({shown.append(line.text), line.after});
  }
}

/// Without the places: where a line that is too long was noticed depends on how it came.
std::string texts_of(std::span<const Told> told) {
  std::string texts;
  for (const Told& each : told) {
    texts += each.text + "\n";
  }
  return texts;
}

/// Lines of all kinds, many blocks of them.
std::string random_text(std::mt19937& random, std::size_t lines) {
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) {
    const std::size_t length = random() % 20 == 0 ? random() % 600'000 : random() % 60;
    text += std::string(random() % 4 == 0 ? 0 : length, "abc "[random() % 4]) + (random() % 3 == 0 ? "\r\n" : "\n");
  }
  return text + (random() % 2 == 0 ? "x" : "");
}

}  // namespace

TEST_CASE("a reader that begins after any line gives the rest, packed or not") {
  std::mt19937 random(5);
  const TempFolder folder;
  for (int round = 0; round < 6; ++round) {
    std::string text = random_text(random, 60);
    if (round == 0) {
      text = "\xef\xbb\xbf" + text;
    }
    for (const std::string& path : {folder.write("a", text), folder.write("b", gzip(text)), folder.write("c", zstd(text))}) {
      const auto all = rest_of(path, {});
      REQUIRE(all.size() > 20);
      for (std::size_t i = 0; i < all.size(); i += 1 + random() % 8) {
        CHECK(texts_of(rest_of(path, {.begin = all[i].after})) == texts_of(std::span(all).subspan(i + 1)));
      }
    }
  }
}

TEST_CASE("a reader that was asked whether it is ready ends its lines in the same places") {
  const TempFolder folder;
  auto reader = LineReader::open(folder.write("x", "a\n\nbb\r\nccc"), kMaxLine);
  REQUIRE(reader);
  Line line;
  for (const LinePlace place : {LinePlace{2, 1, false}, LinePlace{7, 3, false}, LinePlace{10, 4, false}}) {
    CHECK(reader->ready());
    REQUIRE(reader->next(line));
    CHECK(line.after == place);
  }
}

TEST_CASE("ranges of lines, by bytes and by numbers") {
  const TempFolder folder;
  const std::string path = folder.write("x", "a\n\nbb\nccc\ndd\n");
  const auto texts = [&path](const LineRange& range) {
    std::string all;
    for (const Told& told : rest_of(path, range)) {
      all += told.text + " ";
    }
    return all;
  };
  CHECK(texts({}) == "1:a 3:bb 4:ccc 5:dd ");
  CHECK(texts({.begin = {3, 2, false}, .end_offset = 6}) == "3:bb ");
  CHECK(texts({.begin = {3, 2, false}, .end_offset = 7}) == "3:bb 4:ccc ");
  CHECK(texts({.skip = 3}) == "4:ccc 5:dd ");
  CHECK(texts({.skip = 2, .end_line = 4}) == "3:bb 4:ccc ");
  CHECK(texts({.end_line = 0}).empty());
  CHECK(texts({.end_offset = 0}).empty());
  CHECK(texts({.begin = {4, 3, true}}) == "4:ccc 5:dd ");  // inside of line 3
}

TEST_CASE("skipping goes anywhere, also back, and not past the end of what is packed") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 100'000; ++i) {
    text += std::to_string(i) + "\n";
  }
  for (const std::string& path : {folder.write("a", text), folder.write("b", gzip(text)), folder.write("c", zstd(text))}) {
    auto source = ByteSource::open(path, -1);
    REQUIRE(source);
    for (const std::size_t offset : {std::size_t{300'000}, std::size_t{5}, std::size_t{0}, text.size() - 3, std::size_t{17}}) {
      REQUIRE(source->skip_to(offset));
      std::array<char, 3> got{};
      const auto read = source->read(got, true);
      REQUIRE(read);
      CHECK(std::string(got.data(), read->count) == text.substr(offset, read->count));
      CHECK(read->count > 0);
    }
    const auto packed = source->packed();
    REQUIRE(packed);
    CHECK(*packed == (path.back() != 'a'));
  }
  auto source = ByteSource::open(folder.write("d", gzip("abc")), -1);
  REQUIRE(source);
  const auto past = source->skip_to(4);
  REQUIRE_FALSE(past);
  CHECK(past.error().text() == folder.path("d") + ": ends after 3 unpacked bytes, before byte 4");
}

TEST_CASE("skipping stops where it is told to, and does not seek in a pipe") {
  const TempFolder folder;
  std::array<int, 2> wake{};
  REQUIRE(pipe(wake.data()) == 0);
  REQUIRE(write(wake[1], "x", 1) == 1);
  auto source = ByteSource::open(folder.write("x", gzip(std::string(1'000'000, 'x'))), wake[0]);
  REQUIRE(source);
  const auto stopped = source->skip_to(900'000);
  REQUIRE(stopped);
  CHECK(*stopped == ByteSource::Got::stopped);

  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  REQUIRE(write(ends[1], "abcdef\n", 7) == 7);
  auto piped = ByteSource::open("/dev/fd/" + std::to_string(ends[0]), -1);
  REQUIRE(piped);
  const auto refused = piped->skip_to(3);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text().find("Illegal seek") != std::string::npos);
  for (const int fd : {wake[0], wake[1], ends[0], ends[1]}) {
    close(fd);
  }
}
