#include "kime/io/progress.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace kime::test {

namespace {

Progress moment(double seconds, std::uint64_t done, std::optional<double> part, std::uint64_t read) {
  Progress now;
  now.seconds = seconds;
  now.scored = done;
  now.tokens = 80 * done;
  now.part = part;
  now.read = read;
  now.at_work = {"cpu:0"};
  return now;
}

// The line after `seconds` of a job that began at nothing.
std::string line_of(const Progress& now, std::size_t columns, bool colours = false) {
  ProgressFollower follower;
  static_cast<void>(follower.at(moment(0, 0, now.part, 0)));
  return progress_line(now, follower.at(now), columns, colours);
}

}  // namespace

TEST_CASE("progress: the records of all are as many more as the bytes left hold") {
  ProgressFollower follower;
  static_cast<void>(follower.at(moment(0, 0, 0.0, 0)));
  const Outlook outlook = follower.at(moment(2, 100, 0.25, 500));
  CHECK(outlook.records == 2000);
  CHECK(!outlook.exact);
  CHECK(outlook.records_per_second == 50);
  CHECK(outlook.tokens_per_second == 4000);
  CHECK(outlook.seconds_left == 38);  // 1,900 at 50 a second
}

TEST_CASE("progress: once all are read their number is known") {
  ProgressFollower follower;
  static_cast<void>(follower.at(moment(0, 0, 0.0, 0)));
  Progress now = moment(1, 10, std::nullopt, 20);  // a pipe has no size
  CHECK(!follower.at(now).records);
  CHECK(!follower.at(now).seconds_left);
  now.all_read = true;
  CHECK(follower.at(now).records == 20);
  CHECK(follower.at(now).exact);
  CHECK(follower.at(now).seconds_left == 1);
}

TEST_CASE("progress: the speed is that of the last seconds, and an earlier run's records are no part of it") {
  ProgressFollower follower;
  CHECK(follower.at(moment(0, 1000, 0.5, 1000)).records_per_second == 0);
  CHECK(follower.at(moment(1, 1100, 0.5, 1100)).records_per_second == 100);
  for (int second = 2; second <= 30; ++second) {
    static_cast<void>(follower.at(moment(second, 1100, 0.5, 1100)));
  }
  CHECK(follower.at(moment(31, 1100, 0.5, 1100)).records_per_second == 0);
  CHECK(!follower.at(moment(31, 1100, 0.5, 1100)).seconds_left);
}

TEST_CASE("progress: a line") {
  Progress now = moment(10, 12345, 0.25, 25000);
  CHECK(line_of(now, 200) ==
        " 12 %  [##------------------]  12,345 of about 100,000 records  1,234 records/s  98,760 tokens/s  1:12 left  cpu:0 at work");
  now.failed = 1;
  now.at_work.clear();
  now.all_read = true;
  CHECK(line_of(now, 200) ==
        " 49 %  [#########-----------]  12,346 of 25,000 records  1,234 records/s  98,760 tokens/s  0:11 left  1 error  no device at work");
  CHECK(line_of(moment(10, 1, std::nullopt, 1), 200) == "1 record  0 records/s  8 tokens/s  cpu:0 at work");
}

TEST_CASE("progress: what matters least is left out where there is no room") {
  Progress now = moment(10, 12345, 0.25, 25000);
  now.failed = 3;
  std::size_t before = 0;
  for (std::size_t columns = 0; columns < 160; ++columns) {
    const std::string line = line_of(now, columns);
    CHECK(line.size() < std::max<std::size_t>(columns, 1));
    CHECK(line.size() >= before);
    before = line.size();
    CHECK(line.empty() == (columns < 2));
  }
  CHECK(line_of(now, 30) == " 12 %  1:11 left  3 errors");
}

TEST_CASE("progress: colours take no room") {
  Progress now = moment(10, 50, 0.5, 100);
  now.failed = 2;
  const std::string plain = line_of(now, 60);
  std::string coloured = line_of(now, 60, true);
  CHECK(coloured != plain);
  for (std::size_t at = coloured.find('\x1b'); at != std::string::npos; at = coloured.find('\x1b')) {
    coloured.erase(at, coloured.find('m', at) + 1 - at);
  }
  CHECK(coloured == plain);
}

TEST_CASE("progress: a document") {
  ProgressFollower follower;
  static_cast<void>(follower.at(moment(0, 0, 0.0, 0)));
  const Progress now = moment(2, 100, 0.25, 500);
  const auto document = nlohmann::json::parse(progress_json(now, follower.at(now), false));
  CHECK(document == nlohmann::json{{"seconds", 2.0},
                                   {"records", 100},
                                   {"errors", 0},
                                   {"tokens", 8000},
                                   {"records_per_second", 50.0},
                                   {"tokens_per_second", 4000.0},
                                   {"records_in_all", 2000},
                                   {"records_in_all_exact", false},
                                   {"seconds_left", 38.0},
                                   {"at_work", {"cpu:0"}},
                                   {"ended", false}});
  const auto pipe = nlohmann::json::parse(progress_json(moment(0, 0, std::nullopt, 0), Outlook(), true));
  CHECK(pipe["records_in_all"].is_null());
  CHECK(pipe["seconds_left"].is_null());
  CHECK(pipe["ended"] == true);
}

}  // namespace kime::test
