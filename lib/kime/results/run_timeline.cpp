#include "kime/results/run_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kime/io/json_scanner.h"
#include "kime/io/line_reader.h"

namespace kime {
namespace {

std::optional<double> number_of(std::string_view event, std::string_view name) {
  const std::string_view text = field_of(event, name);
  JsonScanner scanner(text);
  double value = 0;
  return !text.empty() && scanner.number(value) ? std::optional(value) : std::nullopt;
}

class TimelineReader {
 public:
  // False where the line is no event.
  bool event(std::string_view text) {
    if (text.ends_with(',')) {
      text.remove_suffix(1);
    }
    const auto tid = number_of(text, "tid");
    const std::string_view phase = field_of(text, "ph");
    if (!tid || phase.empty()) {
      return false;
    }
    if (phase == "\"M\"") {
      return name_row(*tid, text);
    }
    const auto begin = number_of(text, "ts");
    const auto length = number_of(text, "dur");
    if (phase != "\"X\"" || !begin || !length || *begin < 0 || *length < 0) {
      return false;
    }
    if (const auto found = row_of_.find(*tid); found != row_of_.end()) {
      add(timeline_.rows[found->second], *begin, *begin + *length);
      timeline_.rows[found->second].failed += field_of(text, "name") == "\"failed batch\"" ? 1 : 0;
    }
    return true;
  }

  RunTimeline take() { return std::move(timeline_); }

 private:
  // Rows of streams also show copies and marks; a stream's batches say when it was at work.
  bool name_row(double tid, std::string_view text) {
    if (field_of(text, "name") != "\"thread_name\"") {
      return true;
    }
    const std::string_view quoted = field_of(field_of(text, "args"), "name");
    if (!quoted.starts_with('"')) {
      return false;
    }
    const std::string name = unquoted(quoted);
    if (name != "reads" && name != "writes" && !name.ends_with(" batches")) {
      return true;
    }
    if (timeline_.rows.size() == RunTimeline::kMostRows) {
      ++timeline_.rows_left;
      return true;
    }
    row_of_[tid] = timeline_.rows.size();
    timeline_.rows.push_back({name, {}, 0});
    return true;
  }

  void add(RunTimeline::Row& row, double begin, double end) {
    if (timeline_.end == 0 || begin < timeline_.begin) {
      timeline_.begin = begin;
    }
    timeline_.end = std::max(timeline_.end, end);
    while (end > timeline_.column * RunTimeline::kColumns) {
      lengthen();
    }
    for (auto at = static_cast<std::size_t>(begin / timeline_.column); at < RunTimeline::kColumns; ++at) {
      const double from = std::max(begin, static_cast<double>(at) * timeline_.column);
      const double to = std::min(end, static_cast<double>(at + 1) * timeline_.column);
      if (to <= from) {
        break;
      }
      row.busy[at] += to - from;
    }
  }

  void lengthen() {
    for (RunTimeline::Row& row : timeline_.rows) {
      for (std::size_t i = 0; i < RunTimeline::kColumns; ++i) {
        const std::size_t first = 2 * i;
        row.busy[i] = first < RunTimeline::kColumns ? row.busy[first] + row.busy[first + 1] : 0;
      }
    }
    timeline_.column *= 2;
  }

  RunTimeline timeline_;
  std::map<double, std::size_t> row_of_;
};

}  // namespace

Result<RunTimeline> read_run_timeline(const std::string& path, std::size_t max_line) {
  auto lines = LineReader::open(path, max_line);
  if (!lines) {
    return std::move(lines).error();
  }
  TimelineReader reader;
  Line line;
  bool ended = false;
  std::uint64_t last = 0;
  for (;; last = line.number) {
    const auto next = lines->next(line);
    if (!next) {
      return next.error();
    }
    if (*next == LineReader::Next::end) {
      break;
    }
    const bool first = line.number == 1 && line.text.ends_with("\"traceEvents\":[");
    ended = line.text == "]}";
    if (!first && !ended && !reader.event(line.text)) {
      return Error(ErrorKind::input, fmt::format("{}: line {}: no event of `kime score --trace`", path, line.number));
    }
  }
  if (!ended) {
    return Error(ErrorKind::input, fmt::format("{}: the trace breaks off after line {}", path, last));
  }
  return reader.take();
}

}  // namespace kime
