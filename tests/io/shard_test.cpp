#include "kime/io/shard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "pack_text.h"
#include "temp_folder.h"

using kime::ByteSource;
using kime::file_parts;
using kime::FilePart;
using kime::Line;
using kime::LineReader;
using kime::parse_shard;
using kime::Shard;

namespace {

constexpr std::size_t kLineLimit = 100;

void append_lines(LineReader& reader, std::string& out) {
  for (Line line;;) {
    const auto next = reader.next(line);
    REQUIRE(next);
    if (*next != LineReader::Next::line) {
      return;
    }
    out += std::to_string(line.number) + (line.too_long ? "!" : ":");
    out += line.text;
    out += '\n';
  }
}

std::string lines_of_shard(const std::string& path, std::uint64_t size, Shard shard) {
  const FilePart part = file_parts(std::vector{size}, shard)[0];
  auto reader = LineReader::open(path, kLineLimit);
  REQUIRE(reader);
  std::string out;
  if (part.begin < part.end) {
    const auto range = kime::lines_of(reader->source(), part, {});
    REQUIRE(range);
    REQUIRE(*range);
    REQUIRE(reader->keep_to(**range));
    append_lines(*reader, out);
  }
  return out;
}

std::string parse_refusal(std::string_view text) {
  const auto shard = parse_shard(text);
  return shard ? "" : shard.error().text();
}

}  // namespace

TEST_CASE("shards are read from 1/N to N/N") {
  const auto shard = parse_shard("3/8");
  REQUIRE(shard);
  CHECK(shard->index == 3);
  CHECK(shard->count == 8);
  CHECK(parse_refusal("1/1").empty());
  CHECK(parse_refusal("1000000000/1000000000").empty());
  for (const char* text : {"", "3", "/", "3/", "/8", "a/8", "3/8x", "-1/8", "3 / 8", "3/8/9", " 3/8", "+3/8", "99999999999999999999/3"}) {
    CHECK(parse_refusal(text) == fmt::format("'{}' is no shard: the third of eight is 3/8", text));
  }
  CHECK(parse_refusal("0/8") == "'0/8': shards of 8 are 1/8 to 8/8");
  CHECK(parse_refusal("9/8") == "'9/8': shards of 8 are 1/8 to 8/8");
  CHECK(parse_refusal("1/0") == "'1/0': there are 1 to 1000000000 shards");
  CHECK(parse_refusal("1/1000000001") == "'1/1000000001': there are 1 to 1000000000 shards");
}

TEST_CASE("parts of files follow each other without gap, also at the largest sizes") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = random() % 5 + 1; i > 0; --i) {
      sizes.push_back(random() % 3 == 0 ? 0 : random() >> (random() % 60 + 4));
    }
    const std::uint64_t count = random() % (round % 2 == 0 ? 9 : 1'000'000'000) + 1;
    std::vector<std::uint64_t> at(sizes.size());
    const std::uint64_t checked = std::min<std::uint64_t>(count, 9);
    for (std::uint64_t index = 1; index <= checked; ++index) {
      const auto parts = file_parts(sizes, {index, count});
      REQUIRE(parts.size() == sizes.size());
      for (std::size_t file = 0; file < sizes.size(); ++file) {
        CHECK(parts[file].size == sizes[file]);
        CHECK(parts[file].begin == at[file]);
        CHECK(parts[file].end >= parts[file].begin);
        at[file] = parts[file].end;
      }
    }
    if (checked == count) {
      CHECK(at == sizes);
    }
    CHECK(file_parts(sizes, {count, count}).back().end == sizes.back());
  }
}

TEST_CASE("the lines of all shards are the lines of the file, with its numbers") {
  std::mt19937 random(4);
  const TempFolder folder;
  for (int round = 0; round < 40; ++round) {
    std::string text;
    for (std::uint64_t i = random() % 30; i > 0; --i) {
      text += std::string(random() % 3 == 0 ? 0 : random() % 150, 'x') + (random() % 4 == 0 ? "\r\n" : "\n");
    }
    text += random() % 2 == 0 ? "tail" : "";
    for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
      const std::string path = folder.write("x", bytes);
      auto reader = LineReader::open(path, kLineLimit);
      REQUIRE(reader);
      std::string whole;
      append_lines(*reader, whole);
      for (const std::uint64_t count : {1U, 2U, 3U, 7U, 50U, 100'000U}) {
        std::string all;
        for (std::uint64_t index = 1; index <= std::min<std::uint64_t>(count, 50); ++index) {
          all += lines_of_shard(path, bytes.size(), {index, count});
        }
        if (count <= 50) {
          CHECK(all == whole);
        } else {
          CHECK(whole.starts_with(all));
        }
      }
    }
  }
}

TEST_CASE("a place that is known saves counting the lines before it") {
  const TempFolder folder;
  const std::string text = "a\nb\nc\nd\n";
  auto source = ByteSource::open(folder.write("x", text), -1);
  REQUIRE(source);
  const auto range = kime::lines_of(*source, {2, 6, text.size()}, kime::LinePlace{4, 17, false});
  REQUIRE(range);
  REQUIRE(*range);
  CHECK((*range)->begin == kime::LinePlace{4, 17, false});
  CHECK((*range)->end_offset == 6);
}

TEST_CASE("counting lines stops where it is told to") {
  const TempFolder folder;
  std::array<int, 2> wake{};
  REQUIRE(pipe(wake.data()) == 0);
  const std::string text(1'000'000, '\n');
  for (const std::string& bytes : {text, gzip(text)}) {
    auto source = ByteSource::open(folder.write("x", bytes), wake[0]);
    REQUIRE(source);
    REQUIRE(source->packed());  // reads for the first time
    REQUIRE(write(wake[1], "x", 1) == 1);
    const auto range = kime::lines_of(*source, {bytes.size() / 2, bytes.size(), bytes.size()}, {});
    REQUIRE(range);
    CHECK_FALSE(*range);
    char woken = 0;
    REQUIRE(read(wake[0], &woken, 1) == 1);
  }
  close(wake[0]);
  close(wake[1]);
}
