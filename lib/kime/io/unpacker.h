// Stream decompression, one interface for gzip and zstd.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kime {

enum class Compression { none, gzip, zstd };

/// What `start`, the first bytes of a file, says; nothing while they are too few to tell. `at_end`: there are no more.
[[nodiscard]] std::optional<Compression> detect_compression(std::string_view start, bool at_end);

/// A decompressor that is fed packed bytes piece by piece. Members of a gzip file and frames of a zstd file follow each other.
class Unpacker {
 public:
  virtual ~Unpacker() = default;

  /// Unpacks from the front of `packed`, which it shortens, into `out`; gives the number of bytes written. It takes all of `packed`
  /// unless `out` is full. `failure` is set when the data is damaged.
  virtual std::size_t unpack(std::string_view& packed, std::span<char> out, std::string& failure) = 0;
  /// Whether the input may end here: between two members or frames.
  [[nodiscard]] virtual bool complete() const = 0;
  /// Whether there may be more output without more input.
  [[nodiscard]] virtual bool holds_output() const = 0;

  /// Null where memory runs out; not for Compression::none.
  static std::unique_ptr<Unpacker> make(Compression compression);
};

}  // namespace kime
