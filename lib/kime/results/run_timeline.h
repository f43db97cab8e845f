// When what was at work, from the timeline of `kime score --trace`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/error.h"

namespace kime {

/// How busy each row was, in columns of equal time. However long the run, the columns stay as many: they are made twice as long.
struct RunTimeline {
  static constexpr std::size_t kColumns = 256;
  struct Row {
    std::string name;
    std::array<double, kColumns> busy{};  ///< Microseconds.
    std::uint64_t failed = 0;             ///< Batches.
  };
  double column = 1000;         ///< Microseconds.
  double begin = 0;             ///< Of the first span.
  double end = 0;               ///< Of the last one, in microseconds from the trace's beginning.
  std::vector<Row> rows;        ///< Reads, writes, and what each stream had in batches; at most kMostRows.
  std::uint64_t rows_left = 0;  ///< More of them.

  static constexpr std::size_t kMostRows = 24;
};

/// Reads a trace as kime writes it, an event a line. Errors: `input`, naming the file and the line.
Result<RunTimeline> read_run_timeline(const std::string& path, std::size_t max_line);

}  // namespace kime
