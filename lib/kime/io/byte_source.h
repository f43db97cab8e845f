// The bytes of a file, unpacked where it is gzip or zstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kime/base/error.h"

namespace kime {

/// An open input. The kind of compression is told by its first bytes, not by its name, and not before the first read, so that opening
/// never waits for a pipe.
class ByteSource {
 public:
  enum class Got {
    bytes,    ///< At least one.
    end,      ///< The input has ended.
    waiting,  ///< There is nothing yet (only where the read may not wait).
    stopped,  ///< The wake descriptor became readable first; nothing is lost, and the next read goes on.
  };
  struct Read {
    Got got = Got::end;
    std::size_t count = 0;
  };

  /// Opens `path`, "-" being standard input. `wake_fd`, where it is not negative, makes a blocked read return once it is readable;
  /// it is not read from and not owned.
  /// Errors: `input`, naming the file: missing, not readable, a directory.
  static Result<ByteSource> open(const std::string& path, int wake_fd);

  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&& other) noexcept;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  /// Reads what there is into `out`, which is not empty; where there is nothing yet it waits if it `may_wait`.
  /// Errors: `input`, naming the file and saying how far it could be read: the file failed, is truncated, or is damaged.
  Result<Read> read(std::span<char> out, bool may_wait);

  /// Gives its buffers back, where nothing more is wanted of it: read() gives the end from now on.
  void give_back();

  /// Goes on at byte `offset` of the text: seeks where nothing is packed, else unpacks up to there, from the start where it is past it.
  /// `stopped` where the wake descriptor became readable first; the place is then anywhere before `offset`.
  /// Errors: those of read(); a pipe that cannot seek; packed text that ends before `offset`.
  Result<Got> skip_to(std::uint64_t offset);
  /// Whether it is compressed: nothing where the wake descriptor became readable before its first bytes were read. Errors: those of read().
  Result<std::optional<bool>> packed();

  /// Bytes of the file up to what read() gives next; some more where it is packed.
  [[nodiscard]] std::uint64_t file_position() const;
  /// Whether it is known to be compressed.
  [[nodiscard]] bool unpacks() const;

  /// For fstat and positioned reads; the source's own.
  [[nodiscard]] int fd() const;
  /// The name in messages: the path, or "standard input".
  [[nodiscard]] std::string_view name() const;

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kime
