// A file that is there whole or not at all.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kime/base/descriptor.h"
#include "kime/base/error.h"

namespace kime {

/// What is to become the file `path` once it is complete: until then it is `path` with ".partial" and the process's number, which goes
/// away where nothing comes of it. What is no regular file (a pipe, a device) is written to as it is.
class ReportFile {
 public:
  /// Errors: `input`, naming the file: it cannot be made, or is one of `inputs`.
  static Result<ReportFile> open(const std::string& path, std::span<const std::string> inputs);

  ReportFile(ReportFile&& other) noexcept;
  ReportFile& operator=(ReportFile&&) = delete;
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  ~ReportFile();

  /// Writes all of it, and puts it into its place. Errors: `input`, naming the file: no space is left, say; what stood there then stays.
  Status finish(std::string_view content);

 private:
  ReportFile(std::string path, std::string partial, int fd);

  std::string path_;
  std::string partial_;  ///< Empty where it is written to as it is, and once it is in its place.
  Descriptor fd_;
};

}  // namespace kime
