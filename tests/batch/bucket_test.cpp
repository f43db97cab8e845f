#include "kime/batch/bucket.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

using kime::Bucket;
using kime::BucketTable;

namespace {

std::string problem(std::string_view text) {
  const auto table = BucketTable::parse(text, "table.txt");
  if (table) {
    return "";
  }
  CHECK(table.error().kind() == kime::ErrorKind::input);
  return table.error().message();
}

}  // namespace

TEST_CASE("the compiled-in table is that of the contract") {
  const auto compat = BucketTable::compiled_in().stage("compat");
  CHECK(BucketTable::compiled_in().stages() == std::vector<std::string>{"compat"});
  REQUIRE(compat.size() > 15);
  CHECK(compat.size() < 25);
  CHECK(compat.front() == Bucket{32, 8, 32});
  CHECK(compat.back() == Bucket{16384, 1024, 8192});
  for (std::size_t i = 0; i < compat.size(); ++i) {
    CHECK(compat[i].seqs == std::min<std::size_t>(compat[i].tokens / 4, 1024));
    CHECK(compat[i].markers == std::min<std::size_t>(compat[i].tokens, 8192));
    CHECK((i == 0 || compat[i - 1].tokens < compat[i].tokens));
  }
}

TEST_CASE("a table is parsed by stages, in order, with comments") {
  const auto table = BucketTable::parse("# sizes\ncompat 32 8 32\r\n\n  fast\t64 1 0 # one sequence\ncompat 64 8 64", "t");
  REQUIRE(table);
  CHECK(table->stages() == std::vector<std::string>{"compat", "fast"});
  REQUIRE(table->stage("compat").size() == 2);
  CHECK(table->stage("compat")[1] == Bucket{64, 8, 64});
  REQUIRE(table->stage("fast").size() == 1);
  CHECK(table->stage("fast")[0] == Bucket{64, 1, 0});
  CHECK(table->stage("slow").empty());
}

TEST_CASE("bad lines of a table are named by file and line") {
  const std::string word_list = "a line is `stage tokens seqs markers`";
  CHECK(problem("a 1 1 1\nb 2 2") == "table.txt:2: markers is missing; " + word_list);
  CHECK(problem("\n\na") == "table.txt:3: tokens is missing; " + word_list);
  CHECK(problem("a 1 1 1 1") == "table.txt:1: 1 is one word too many; " + word_list);
  CHECK(problem("a x 1 1") == "table.txt:1: tokens is x, not an integer from 1 to 4294967295");
  CHECK(problem("a 0 1 1") == "table.txt:1: tokens is 0, not an integer from 1 to 4294967295");
  CHECK(problem("a 1 -1 1") == "table.txt:1: seqs is -1, not an integer from 1 to 4294967295");
  CHECK(problem("a 1 1 1.5") == "table.txt:1: markers is 1.5, not an integer from 0 to 4294967295");
  CHECK(problem("a 4294967296 1 1") == "table.txt:1: tokens is 4294967296, not an integer from 1 to 4294967295");
  CHECK(problem("") == "table.txt: no bucket; " + word_list);
  CHECK(problem("# nothing\n") == "table.txt: no bucket; " + word_list);
}

TEST_CASE("a bucket that would never be chosen is an error") {
  CHECK(problem("a 32 8 32\n\nb 32 8 32\na 32 8 32") == "table.txt:4: this bucket is a duplicate of line 1");
  CHECK(problem("#\na 32 8 32\na 16 8 32") == "table.txt:3: this bucket is never used: that of line 2 holds all it does");
  CHECK(problem("a 32 8 32\nb 16 8 32").empty());
  CHECK(problem("a 32 8 32\na 16 9 32").empty());
}

TEST_CASE("the first bucket that holds the counts is taken") {
  const std::vector<Bucket> buckets = {{32, 8, 32}, {16, 16, 32}, {64, 16, 64}};
  CHECK(kime::find_bucket(buckets, 32, 8, 32) == &buckets[0]);
  CHECK(kime::find_bucket(buckets, 16, 9, 0) == &buckets[1]);
  CHECK(kime::find_bucket(buckets, 33, 1, 0) == &buckets[2]);
  CHECK(kime::find_bucket(buckets, 1, 1, 65) == nullptr);
  CHECK(kime::find_bucket({}, 0, 0, 0) == nullptr);
  CHECK(kime::no_bucket("compat", 20000, 1, 4).text() == "no compat bucket holds 20000 tokens, 1 sequences and 4 markers");
}

TEST_CASE("in every table that parses, every bucket is the choice for what fills it") {
  CHECK(rc::check("no bucket is shadowed", [] {
    const auto sizes = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(1, 6), rc::gen::inRange(1, 6), rc::gen::inRange(0, 6)));
    std::string text;
    for (const auto& [tokens, seqs, markers] : sizes) {
      text += "s " + std::to_string(tokens) + " " + std::to_string(seqs) + " " + std::to_string(markers) + "\n";
    }
    const auto table = BucketTable::parse(text, "t");
    if (table) {
      for (const Bucket& bucket : table->stage("s")) {
        RC_ASSERT(*kime::find_bucket(table->stage("s"), bucket.tokens, bucket.seqs, bucket.markers) == bucket);
      }
    }
  }));
}
