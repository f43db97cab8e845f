// The way in: whatever number of threads parses, records come as if one did.
#include "kime/job/intake.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kime/job/stop.h"
#include "tests/io/named_pipe.h"
#include "tests/io/pack_text.h"
#include "tests/io/same_parse.h"
#include "tests/io/temp_folder.h"

namespace kime::test {

namespace {

constexpr std::size_t kLongestLine = 500'000;

struct Given {
  Record record;
  Where where;
  std::optional<RecordError> error;
  std::string file;  ///< where's, for as long as this lives.
};

IntakeOptions options_of(std::vector<std::string> files, std::size_t threads) {
  return {.files = std::move(files),
          .lines = {.max_line = kLongestLine,
                    .records = {.vocab = 1000, .keep = true},
                    .stage = "1",
                    .buckets = {{8192, 1, 64}, {100'000, 1, 64}}},
          .threads = threads};
}

std::string record_line(std::mt19937_64& random, std::size_t tokens, std::string_view more) {
  std::string ids;
  for (std::size_t i = 0; i < tokens; ++i) {
    ids += fmt::format("{}{}", i == 0 ? "" : ",", random() % 1000);
  }
  return fmt::format(R"({{"ids":[{}],"markers":[0],"qtype":"score","id":{}{}}})", ids, random() % 1'000'000, more);
}

// Most of them short and right; some wrong, blank, longer than a chunk, too long for any bucket, or too long for a line.
std::string some_lines(std::mt19937_64& random, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    switch (random() % 24) {
      case 0:
        text += "  \r\n\n";
        break;
      case 1:
        text += R"({"ids":[1000],"markers":[],"qtype":0})";
        break;
      case 2:
        text += "{\"ids\":[1],";
        break;
      case 3:
        text += record_line(random, 3, fmt::format(R"(,"text":"{}")", std::string(random() % 200'000, 'x')));
        break;
      case 4:
        text += random() % 8 == 0 ? record_line(random, 100'001, "") : record_line(random, 9000, "");
        break;
      case 5:
        text += random() % 8 == 0 ? std::string(kLongestLine + 1, '[') : "null";
        break;
      default:
        text += record_line(random, 1 + random() % 60, R"(,"text":"\u00e9")");
    }
    text += '\n';
  }
  return text;
}

std::vector<Given> all_of(Intake& intake) {
  std::vector<Given> given;
  Given one;
  double before = 0;
  while (intake.next(one.record, one.where, one.error) == Intake::Next::record) {
    const double part = intake.part_read().value_or(0);
    CHECK(part >= before);
    before = part;
    one.file = one.where.file;
    given.push_back(one);
  }
  return given;
}

// What the lines are, one by one.
std::vector<Given> expected_of(const std::vector<std::string>& files) {
  std::vector<Given> given;
  const auto options = options_of(files, 1);
  RecordParser parser(options.lines.records);
  for (std::size_t file = 0; file < files.size(); ++file) {
    auto reader = LineReader::open(files[file], kLongestLine);
    REQUIRE(reader);
    for (Line line; *reader->next(line) == LineReader::Next::line;) {
      Given& one = given.emplace_back();
      one.where = {line.number, {}, {file, line.after}};
      one.file = files.size() > 1 ? nlohmann::json(files[file]).dump() : "";
      if (line.too_long) {
        one.record.id = "null";
        one.error = too_long_error(kLongestLine);
        continue;
      }
      one.error = parser.parse_by_events(line.text, one.record);
      if (!one.error && one.record.ids.size() > 100'000) {
        one.error = record_error(no_bucket(options.lines.stage, one.record.ids.size(), 1, 1));
      }
    }
  }
  return given;
}

// The first record in which they differ.
std::string difference(const std::vector<Given>& a, const std::vector<Given>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const std::string what = difference_of(a[i].record, a[i].error, b[i].record, b[i].error);
    if (!what.empty() || a[i].where.line != b[i].where.line || a[i].file != b[i].file || !(a[i].where.after == b[i].where.after)) {
      return fmt::format("record {}: {}, lines {} and {}", i, what, a[i].where.line, b[i].where.line);
    }
  }
  return a.size() == b.size() ? "" : fmt::format("{} records and {}", a.size(), b.size());
}

}  // namespace

TEST_CASE("records come in order and are the same, whatever number of threads parses them", "[threads]") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TempFolder folder;
  const std::string text = some_lines(random, 3000);
  const std::vector<std::string> files = {folder.write("a \"\n.jsonl", text), folder.write("empty", ""),
                                          folder.write("b.jsonl.gz", gzip(some_lines(random, 800))), folder.write("one", "{}")};
  const auto expected = expected_of(files);
  for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
    CAPTURE(threads);
    auto intake = Intake::open(options_of(files, threads));
    REQUIRE(intake);
    CHECK(difference(all_of(*intake), expected).empty());
    CHECK(intake->part_read() == 1);
    Given more;
    CHECK(intake->next(more.record, more.where, more.error) == Intake::Next::end);
  }
  // From the middle, and left in the middle.
  for (int i = 0; i < 4; ++i) {
    const std::size_t at = random() % expected.size();
    CAPTURE(at);
    auto intake = Intake::open(options_of(files, 1 + random() % 4));
    REQUIRE(intake);
    REQUIRE(*intake->begin(std::nullopt, expected[at].where.after));
    const std::vector<Given> rest(expected.begin() + static_cast<std::ptrdiff_t>(at) + 1, expected.end());
    CHECK(difference(all_of(*intake), rest).empty());
    auto left = Intake::open(options_of(files, 4));
    REQUIRE(left);
    Given one;
    for (std::size_t k = 0; k < at; ++k) {
      REQUIRE(left->next(one.record, one.where, one.error) == Intake::Next::record);
    }
  }
}

TEST_CASE("how much has been read follows the records that were given, not those read ahead", "[threads]") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    text += R"({"ids":[1,2,3],"markers":[0],"qtype":0})";
    text += '\n';
  }
  auto intake = Intake::open(options_of({folder.write("a", text)}, 4));
  REQUIRE(intake);
  Given one;
  for (int i = 1; i <= 20'000; ++i) {
    REQUIRE(intake->next(one.record, one.where, one.error) == Intake::Next::record);
    CHECK(intake->part_read() == Approx(i / 20'000.0));
  }
}

TEST_CASE("a line that is there is given without waiting for another, and stopping waits for none") {
  const std::size_t threads = GENERATE(1U, 4U);
  const TempFolder folder;
  NamedPipe pipe(folder);
  Stop stop;
  auto options = options_of({pipe.path()}, threads);
  options.wake_fd = stop.fd();
  auto intake = Intake::open(std::move(options));
  REQUIRE(intake);
  CHECK_FALSE(intake->ready());
  CHECK_FALSE(intake->part_read());
  const std::string line = R"({"ids":[1],"markers":[],"qtype":0})";
  Given one;
  pipe.write(line + "\n" + line.substr(0, 7));
  CHECK(intake->ready());
  CHECK(intake->next(one.record, one.where, one.error) == Intake::Next::record);
  CHECK(one.where.line == 1);
  CHECK_FALSE(intake->ready());
  pipe.write(line.substr(7) + "\n" + line + "\n" + line.substr(0, 3));
  CHECK(intake->next(one.record, one.where, one.error) == Intake::Next::record);
  CHECK(intake->ready());
  CHECK(intake->next(one.record, one.where, one.error) == Intake::Next::record);
  CHECK(one.where.line == 3);
  CHECK_FALSE(intake->ready());
  std::thread asker([&stop] { stop.request(); });
  CHECK(intake->next(one.record, one.where, one.error) == Intake::Next::stopped);
  asker.join();
  CHECK(intake->next(one.record, one.where, one.error) == Intake::Next::stopped);
}

TEST_CASE("of an input that breaks off, what came before is given", "[threads]") {
  const std::size_t threads = GENERATE(1U, 3U);
  std::mt19937_64 random(7);
  const TempFolder folder;
  const std::string packed = gzip(some_lines(random, 2000));
  const std::string path = folder.write("torn.gz", packed.substr(0, packed.size() / 2));
  auto intake = Intake::open(options_of({path, folder.write("after", "{}")}, threads));
  REQUIRE(intake);
  const auto given = all_of(*intake);
  CHECK(given.size() > 100);
  for (std::size_t i = 1; i < given.size(); ++i) {
    CHECK(given[i].where.line > given[i - 1].where.line);
  }
  Given one;
  for (int i = 0; i < 2; ++i) {  // and nothing follows
    CHECK(intake->next(one.record, one.where, one.error) == Intake::Next::broken);
    CHECK(intake->failure().text().find("torn.gz") != std::string::npos);
  }
}

}  // namespace kime::test
