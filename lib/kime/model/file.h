// A file that is read by position: no shared offset, so that any number of threads may read at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "kime/base/error.h"

namespace kime {

/// An open regular file. It stays the same file when its name comes to mean another. Owns the descriptor; movable.
///
/// Reads are positioned (pread) rather than through a mapping: a mapped file that shrinks, or whose network file system fails, ends the
/// process with SIGBUS, where a read returns an error.
class File {
 public:
  File() = default;
  File(File&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(std::exchange(other.size_, 0)) {}
  File& operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(size_, other.size_);
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  /// Errors: `input`, naming the file and the system's reason; also for what is no regular file.
  static Result<File> open(const std::string& path);
  /// The same, but nothing when there is no such file.
  static Result<std::optional<File>> open_if_present(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Bytes when it was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Fills `out` from byte `offset` on. Errors: `input` when the system fails or the file has become shorter, naming the file.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  /// The whole file as text. Errors: `input` as above, and for a file over `limit` bytes.
  Result<std::string> text(std::uint64_t limit) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace kime
