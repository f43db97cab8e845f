// A temporary file without a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kime/base/descriptor.h"
#include "kime/base/error.h"

namespace kime {

/// Takes bytes at its end and gives them back from anywhere. Made when more has come than its buffer holds, in $TMPDIR, else /var/tmp,
/// else /tmp (/var/tmp first, since /tmp may be memory); gone when the process ends, however it ends. For one thread at a time.
class SpillFile {
 public:
  SpillFile() = default;
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;
  ~SpillFile() = default;

  /// Where the bytes begin. Errors: `input`, naming the folder: no such file can be made there, or no space is left.
  Result<std::uint64_t> append(std::string_view bytes);
  /// Fills `out` from `offset`; all of it has been appended. Errors: `input`: reading failed.
  Status read(std::uint64_t offset, std::span<char> out);
  /// What has been appended.
  [[nodiscard]] std::uint64_t size() const { return written_ + held_.size(); }

 private:
  Status open();
  Status flush();

  Descriptor fd_;
  std::string folder_;
  std::string held_;  ///< The bytes from `written_` on.
  std::uint64_t written_ = 0;
};

}  // namespace kime
