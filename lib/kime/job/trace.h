// A timeline of a run in the Chrome trace format (the "JSON Object Format" of the Trace Event Format), which Perfetto opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "kime/base/error.h"

namespace kime {

/// Written as it goes, so that it takes no memory. From any thread.
class Trace {
 public:
  /// Errors: `input`, naming the file.
  static Result<std::unique_ptr<Trace>> create(const std::string& path);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  /// Ends the document, if close() has not.
  ~Trace();

  /// A row of the timeline; rows stand in the order in which they are made.
  [[nodiscard]] std::size_t row(std::string_view name);
  /// A span of a row, in nanoseconds of the steady clock. Spans of a row do not overlap, but one may hold others.
  void span(std::size_t row, std::string_view name, std::uint64_t begin, std::uint64_t end);
  /// With the records and tokens that it is about.
  void span(std::size_t row, std::string_view name, std::uint64_t begin, std::uint64_t end, std::uint64_t records, std::uint64_t tokens);
  /// Errors: `input`, naming the file, when it could not all be written.
  Status close();

  /// Now, on the clock of spans.
  [[nodiscard]] static std::uint64_t now();

 private:
  Trace(std::string path, std::FILE* file);
  void write(const std::string& event);

  std::string path_;
  std::mutex mutex_;
  std::FILE* file_;
  std::uint64_t start_;
  std::size_t rows_ = 0;
  bool first_ = true;
};

}  // namespace kime
