#include "kime/results/run_report.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <string>

#include "kime/results/run_devices.h"
#include "kime/results/run_timeline.h"
#include "kime/results/score_line_parser.h"
#include "tests/io/temp_folder.h"

using kime::GrowingHistogram;
using kime::LabelReport;
using kime::RecordFacts;
using kime::RunReport;

namespace {

void add(RunReport& report, std::string_view fields, const std::optional<RecordFacts>& facts = std::nullopt) {
  kime::ScoreBlock block;
  REQUIRE_FALSE(kime::parse_score_line(R"({"id":1,)" + std::string(fields) + "}", 7, block));
  report.add(block.view(0), facts);
}

}  // namespace

TEST_CASE("a growing histogram loses nothing and keeps its bins") {
  GrowingHistogram histogram(0, 1);
  histogram.add(0);
  histogram.add(1);
  CHECK(histogram.counts().front() == 1);
  CHECK(histogram.counts().back() == 1);
  CHECK(histogram.edge(GrowingHistogram::kBins) == 1);
  for (const double value : {-3.5, 100.0, 1e-9, 1e308, -1e308}) {
    histogram.add(value);
    const auto& counts = histogram.counts();
    CHECK(counts.size() == GrowingHistogram::kBins);
    CHECK(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == histogram.total());
  }
  GrowingHistogram down(0, 1);
  down.add(0.9);
  down.add(-0.5);  // now from -1 to 1
  CHECK(down.edge(0) == -1);
  CHECK(down.counts()[10] == 1);
  CHECK(down.counts()[38] == 1);
}

TEST_CASE("types come from records, else from answers") {
  RunReport report;
  add(report, R"("choice":2,"confidence":0.5,"answer_confidence":0.75)");
  add(report, R"("score":1.25,"probs":[0.25,0.5,0.25])");
  add(report, R"("noul":null)");
  add(report, R"("logits":[1,5,3.5],"act":[1,2])");
  add(report, R"("logits":[1,5,3.5],"act":[1,2])", RecordFacts{12, 1, ""});
  CHECK(report.types[0].records == 1);
  CHECK(report.types[0].best[2] == 1);
  CHECK(report.types[0].confidence.total() == 1);
  CHECK(report.types[1].records == 2);
  CHECK(report.types[1].score.total() == 1);
  CHECK(report.types[2].no_options == 1);
  CHECK(report.types[3].margin.total() == 1);
  CHECK(report.with_length == 1);
  CHECK(report.tokens == 12);
}

TEST_CASE("a label is held against the answer, as kime score --labels does, else against what probabilities or logits say") {
  RunReport report;
  const auto label = [](std::string text, std::uint8_t type = 1) { return RecordFacts{1, type, std::move(text)}; };
  add(report, R"("probs":[0.5,0.125,0.375],"score":0.875)", label("1"));
  add(report, R"("probs":[0.5,0.125,0.375],"score":0.875)", label("0"));
  add(report, R"("probs":[0.5,0.125,0.375])", label("1"));  // the level that a score expects
  CHECK(report.labels.count == 3);
  CHECK(report.labels.right == 2);
  add(report, R"("probs":[0.5,0.125,0.375])", label("0", 0));
  add(report, R"("logits":[5,1,4])", label("0"));
  CHECK(report.labels.count == 5);
  CHECK(report.labels.right == 4);
  add(report, R"("probs":[0.5,0.5])", label("1.0"));  // as in records, a count is a JSON integer
  CHECK(report.labels.count == 5);
  CHECK(report.bad_labels == 1);
}

TEST_CASE("labels and what is held against them") {
  RunReport report;
  const auto label = [](std::string text) { return RecordFacts{1, 0, std::move(text)}; };
  add(report, R"("probs":[0.25,0.75])", label("1"));
  add(report, R"("probs":[0.25,0.75])", label("0"));
  add(report, R"("noul":0.75,"answer_confidence":0.75)", label("true"));
  add(report, R"("logits":[3,1],"label":0)");
  add(report, R"("score":1.5,"answer_confidence":0.5,"label":2)");
  for (const auto* text : {"\"yes\"", "-1", "1.5", "null", "[0]"}) {
    add(report, R"("probs":[1])", label(text));
  }
  add(report, R"("probs":[])", label("0"));  // there is no answer to hold against it
  CHECK(report.labels.count == 5);
  CHECK(report.labels.right == 4);
  CHECK(report.bad_labels == 5);
  CHECK(report.labels.with_confidence == 4);
  // (|2 - 3 * 0.75| + |1 - 0.5|) / 4
  CHECK(report.labels.calibration_error() == Approx(0.1875));
  CHECK(report.types[0].labels.count == 3);
}

TEST_CASE("calibration errors by hand") {
  LabelReport labels;
  CHECK(labels.calibration_error() == 0);
  for (int i = 0; i < 10; ++i) {
    labels.add(i < 6, 0.9);
    labels.add(true, 1);
  }
  CHECK(labels.calibration_error() == Approx(0.15));
  CHECK(labels.accuracy() == Approx(0.8));
  CHECK(labels.bins[LabelReport::kBins - 1].count == 10);
}

TEST_CASE("errors by kind, of which there are not too many") {
  RunReport report;
  add(report, R"("error":{"kind":"batch","message":"one"})");
  add(report, R"("error":{"message":"two","kind":"batch"})");
  add(report, R"("error":{})");
  CHECK(report.error_kinds.at("batch").count == 2);
  CHECK(report.error_kinds.at("batch").first_message == "one");
  CHECK(report.error_kinds.at("batch").first_line == 7);
  CHECK(report.error_kinds.at("without a kind").count == 1);
  for (int i = 0; i < 1000; ++i) {
    add(report, fmt::format(R"("error":{{"kind":"k{}"}})", i));
  }
  CHECK(report.error_kinds.size() <= RunReport::kMostKinds + 1);
  CHECK(report.error_kinds.at("others").count == 1000 - (RunReport::kMostKinds - 2));
  CHECK(report.errors == 1003);
}

TEST_CASE("bins of lengths ascend, eight to a doubling") {
  CHECK(RunReport::length_bin(0) == 0);
  CHECK(RunReport::length_bin(1) == 0);
  CHECK(RunReport::length_bin(2) == 8);
  CHECK(RunReport::length_bin(1 << 20) == 160);
  CHECK(RunReport::length_bin(~std::size_t{0}) == 255);
  for (std::size_t length = 1; length < 3000; ++length) {
    const std::size_t bin = RunReport::length_bin(length);
    CHECK(RunReport::length_edge(bin) <= static_cast<double>(length) * (1 + 1e-12));
    CHECK(static_cast<double>(length) < RunReport::length_edge(bin + 1) * (1 + 1e-12));
  }
}

TEST_CASE("records beside their scores") {
  const TempFolder folder;
  const auto first = folder.write("first", R"({"id":"a","ids":[1,2,3],"markers":[0],"qtype":2,"label":1}
{"ids":[1],"markers":[],"qtype":0}
garbage
{"id":"skipped","ids":[1],"markers":[],"qtype":0}
)");
  const auto second = folder.write("second", R"({"ids":[1,2],"markers":[],"qtype":"score"})");
  std::vector<kime::LineReader> files;
  for (const auto& path : {first, second}) {
    auto lines = kime::LineReader::open(path, 1000);
    REQUIRE(lines);
    files.push_back(*std::move(lines));
  }
  kime::RecordStream records(std::move(files));
  std::optional<RecordFacts> facts;
  const auto find = [&](std::string_view id) {
    return records.find({.line = 9, .hash = {}, .key = id, .id = id, .error = {}, .label = {}, .fields = {}, .values = {}}, facts);
  };
  REQUIRE_FALSE(find(R"("a")"));
  REQUIRE(facts);
  CHECK(facts->tokens == 3);
  CHECK(facts->qtype == 2);
  CHECK(facts->label == "1");
  REQUIRE_FALSE(find("2"));
  CHECK(facts->label.empty());
  REQUIRE_FALSE(find("null"));
  CHECK_FALSE(facts);
  REQUIRE_FALSE(find("1"));  // of the second file
  CHECK(facts->qtype == 1);
  const auto trouble = find("1");
  REQUIRE(trouble);
  CHECK(trouble->message == second + ": the record 1 of line 9 of the scores is not there, or not in the scores' order");
}

TEST_CASE("statistics that are none are named") {
  const TempFolder folder;
  const std::string good = R"({"seconds":2.5,"records":10,"failed":1,"tokens":70,"batches":3,"devices":[{"device":"cpu:0","class":"cpu",)"
                           R"("precision":"f32","streams":2,"batches":3,"records":10,"tokens":70,"rescued":0,"padding":5,"failures":0,)"
                           R"("busy_share":0.5,"idle_share":0.5,"retired":null}]})";
  const auto run = kime::read_run_devices(folder.write("good", good));
  REQUIRE(run);
  CHECK(run->seconds == 2.5);
  REQUIRE(run->devices.size() == 1);
  CHECK(run->devices[0].name == "cpu:0");
  CHECK(run->devices[0].retired.empty());
  CHECK(run->devices[0].padding == 5);
  const auto refuse = [&](const std::string& text, const std::string& why) {
    const auto path = folder.write("bad", text);
    const auto bad = kime::read_run_devices(path);
    REQUIRE_FALSE(bad);
    CHECK(bad.error().text() == path + ": " + why);
  };
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  refuse("{", "no document of `kime score --stats`: it has no list \"devices\"");
  refuse("[]", "no document of `kime score --stats`: it has no list \"devices\"");
  refuse(with("\"seconds\":2.5,", ""), "seconds is not a number");
  refuse(with("\"records\":10,\"failed\"", "\"records\":-1,\"failed\""), "records is not a count");
  refuse(with("\"streams\":2", "\"streams\":\"2\""), "devices[0].streams is not a count");
  refuse(with("\"retired\":null", "\"retired\":7"), "devices[0].retired is not a string");
  refuse(R"({"seconds":1,"records":1,"failed":1,"tokens":1,"batches":1,"devices":[7]})", "devices[0] is no object");
  CHECK_FALSE(kime::read_run_devices(folder.path("gone")));
}

TEST_CASE("a timeline in columns, however long the run") {
  const TempFolder folder;
  std::string trace = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const auto name = [](int tid, std::string_view text) {
    return fmt::format("{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}}},\n", tid, text);
  };
  const auto span = [](int tid, double begin, double length, std::string_view text = "batch") {
    return fmt::format("{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"name\":\"{}\"}},\n", tid, begin, length, text);
  };
  trace += "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"kime\"}},\n";
  trace += name(1, "cpu:0.0") + name(2, "reads") + name(3, "cpu:0.0 batches");
  trace += span(1, 0, 50, "copy in") + span(3, 500, 1000) + span(3, 2000, 100, "failed batch") + span(2, 5000, 0);
  const auto short_run = kime::read_run_timeline(folder.write("short", trace + "{\"ph\":\"M\",\"pid\":1,\"tid\":9}\n]}\n"), 1 << 20);
  REQUIRE(short_run);
  REQUIRE(short_run->rows.size() == 2);
  const auto& row = short_run->rows[1];
  CHECK(row.name == "cpu:0.0 batches");
  CHECK(row.failed == 1);
  CHECK(row.busy[0] == 500);
  CHECK(row.busy[1] == 500);
  CHECK(row.busy[2] == 100);
  CHECK(short_run->end == 5000);
  CHECK(short_run->begin == 500);
  trace += span(3, 1e7, 1e6);
  const auto long_run = kime::read_run_timeline(folder.write("long", trace + "]}\n"), 1 << 20);
  REQUIRE(long_run);
  const auto& busy = long_run->rows[1].busy;
  CHECK(std::accumulate(busy.begin(), busy.end(), 0.0) == Approx(1e6 + 1100));
  CHECK(busy[0] == 1100);
  CHECK(long_run->column * kime::RunTimeline::kColumns >= 1.1e7);

  const auto torn = kime::read_run_timeline(folder.write("torn", trace), 1 << 20);
  REQUIRE_FALSE(torn);
  CHECK(torn.error().text() == folder.path("torn") + ": the trace breaks off after line 10");
  const auto other = kime::read_run_timeline(folder.write("other", trace + "{\"id\":1}\n]}\n"), 1 << 20);
  REQUIRE_FALSE(other);
  CHECK(other.error().text() == folder.path("other") + ": line 11: no event of `kime score --trace`");
  CHECK_FALSE(kime::read_run_timeline(folder.write("empty", ""), 1 << 20));
}
