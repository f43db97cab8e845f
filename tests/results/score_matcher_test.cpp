#include "kime/results/score_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/io/pack_text.h"
#include "tests/io/temp_folder.h"

using kime::ResultsTrouble;
using kime::ScoreDifferences;
using kime::ScoreFailure;

namespace {

struct Ran {
  std::optional<ResultsTrouble> trouble;
  ScoreDifferences found;
};

Ran run(const std::string& before, const std::string& after) {
  kime::ScoreComparer comparer({}, {});
  auto old_lines = kime::LineReader::open(before, 1 << 20);
  auto new_lines = kime::LineReader::open(after, 1 << 20);
  REQUIRE(old_lines);
  REQUIRE(new_lines);
  kime::ScoreReader old_scores(before, *std::move(old_lines), true);
  kime::ScoreReader new_scores(after, *std::move(new_lines), true);
  auto trouble = match_scores(old_scores, new_scores, comparer);
  return {trouble, comparer.take()};
}

// Records of these numbers, in this order; a record's scores follow from its number.
std::string scores(const std::vector<int>& order) {
  std::string text;
  for (const int i : order) {
    text += fmt::format("{{\"id\":\"r{}\",\"logits\":[{}.5,{}],\"act\":[1,2]}}\n", i, i, -i);
  }
  return text;
}

std::vector<int> range(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> shuffled(std::vector<int> order, unsigned seed) {
  std::ranges::shuffle(order, std::mt19937(seed));
  return order;
}

}  // namespace

TEST_CASE("the same records in any order are all the same bits") {
  const TempFolder folder;
  const int count = GENERATE(0, 1, 3, 20000);
  auto turned = range(count);
  std::rotate(turned.begin(), turned.begin() + count / 3, turned.end());
  auto reverse = range(count);
  std::ranges::reverse(reverse);
  const auto old_path = folder.write("old", scores(range(count)));
  for (const auto& order : {range(count), shuffled(range(count), 1), turned, reverse}) {
    const auto ran = run(old_path, folder.write("new", scores(order)));
    REQUIRE_FALSE(ran.trouble);
    CHECK(ran.found.same_records == static_cast<std::uint64_t>(count));
    CHECK(ran.found.matched == static_cast<std::uint64_t>(count));
    CHECK(ran.found.passed());
  }
}

TEST_CASE("records of one side only are counted, and named in the order of their lines") {
  const TempFolder folder;
  std::vector<int> old_order;
  std::vector<int> new_order;
  for (const int i : range(5000)) {
    if (i % 100 != 7) {
      old_order.push_back(i);
    }
    if (i % 50 != 9) {
      new_order.push_back(i);
    }
  }
  const bool shuffle = GENERATE(false, true);
  if (shuffle) {
    new_order = shuffled(new_order, 2);
  }
  const auto ran = run(folder.write("old.gz", gzip(scores(old_order))), folder.write("new.zst", zstd(scores(new_order))));
  REQUIRE_FALSE(ran.trouble);
  CHECK(ran.found.matched == 5000 - 50 - 100);
  CHECK(ran.found.same_records == ran.found.matched);
  CHECK(ran.found.failed_of(ScoreFailure::only_old) == 100);
  CHECK(ran.found.failed_of(ScoreFailure::only_new) == 50);
  CHECK_FALSE(ran.found.passed());
  REQUIRE(ran.found.failures.size() == 150);
  CHECK(ran.found.failures[0].record.id == R"("r9")");
  CHECK(ran.found.failures[0].record.old_line == 9);  // r7 is not there
  CHECK(ran.found.failures[0].record.new_line == 0);
  CHECK(ran.found.failures[1].record.id == R"("r59")");
}

TEST_CASE("what waits comes back whole") {
  const TempFolder folder;
  const std::string error = R"({"id":1,"line":1,"error":{"kind":"json","message":"m"}})";
  std::string many = R"({"id":"long","logits":[0)";  // more than is read at once
  for (int i = 1; i < 3000; ++i) {
    many += fmt::format(",{}.25", i);
  }
  many += "]}";
  const std::string full = R"({"id":{"a":"ö"},"file":"f","logits":[1],"act":[2,3],"probs":[1],"noul":null,"act_probability":0.5})";
  const auto ran =
      run(folder.write("old", error + "\n" + many + "\n" + full + "\n"), folder.write("new", full + "\n" + error + "\n" + many + "\n"));
  REQUIRE_FALSE(ran.trouble);
  CHECK(ran.found.matched == 3);
  CHECK(ran.found.errors_both == 1);
  CHECK(ran.found.same_records == 2);
  CHECK(ran.found.fields[0].same == 3001);
  CHECK(ran.found.passed());
}

TEST_CASE("an id that comes twice is named, in either file and however far apart") {
  const TempFolder folder;
  auto order = range(60000);  // past what the log holds in memory
  order.push_back(17);
  const auto twice = folder.write("twice", scores(order));
  const auto once = folder.write("once", scores(range(60000)));
  for (const bool swap : {false, true}) {
    const auto ran = swap ? run(once, twice) : run(twice, once);
    REQUIRE(ran.trouble);
    CHECK(ran.trouble->kind == ResultsTrouble::Kind::unusable);
    CHECK(ran.trouble->message == twice + R"(: lines 18 and 60001 have the same id "r17": records are matched by it)");
  }
  CHECK(run(twice, twice).trouble);
  const auto packed = run(once, folder.write("packed.gz", gzip(scores({1, 2, 1}))));
  REQUIRE(packed.trouble);
  CHECK(packed.trouble->message.find("lines 1 and 3") != std::string::npos);
}

TEST_CASE("ids are one record's in each file") {
  const TempFolder folder;
  const std::string two_files = R"({"id":1,"file":"a","act":[1,2]})"
                                "\n"
                                R"({"id":1,"file":"b","act":[1,2]})"
                                "\n"
                                R"({"id":null,"line":4,"error":{"kind":"json"}})"
                                "\n"
                                R"({"id":null,"line":5,"error":{"kind":"json"}})"
                                "\n";
  const auto path = folder.write("two", two_files);
  const auto ran = run(path, path);
  REQUIRE_FALSE(ran.trouble);
  CHECK(ran.found.matched == 4);
  CHECK(ran.found.passed());
}

TEST_CASE("a file that cannot be used ends it") {
  const TempFolder folder;
  const auto good = folder.write("good", scores(range(3000)));
  const auto bad = folder.write("bad", scores(range(2000)) + "\n{\"id\":5,\"act\":[NaN,1]}\n");
  const auto ran = run(good, bad);
  REQUIRE(ran.trouble);
  CHECK(ran.trouble->kind == ResultsTrouble::Kind::unusable);
  CHECK(ran.trouble->message == bad + R"(: line 2002: "act": expected a value at byte 16)");
  const auto torn = folder.write("torn.gz", gzip(scores(range(3000))).substr(0, 5000));
  for (const auto& again : {run(torn, good), run(good, torn)}) {
    REQUIRE(again.trouble);
    CHECK(again.trouble->kind == ResultsTrouble::Kind::lost);
    CHECK(again.trouble->message.find("truncated") != std::string::npos);
  }
  const auto longer = run(folder.write("long", std::string(2 << 20, 'x')), good);
  REQUIRE(longer.trouble);
  CHECK(longer.trouble->message.find("line 1: it is longer than --max-line allows") != std::string::npos);
}
