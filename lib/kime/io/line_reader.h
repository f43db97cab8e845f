// The lines of an input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/error.h"
#include "kime/io/byte_source.h"

namespace kime {

/// A place in an input where a reader can begin: between two lines, or inside one that is too long.
struct LinePlace {
  std::uint64_t offset = 0;  ///< In the unpacked text.
  std::uint64_t line = 0;    ///< How many lines begin before it, blank ones counted.
  bool inside = false;       ///< The last of them has not ended, and the rest of it is left out.

  bool operator==(const LinePlace&) const = default;
};

/// What `--max-line` is where it is not given: bytes.
inline constexpr std::size_t kDefaultMaxLine = std::size_t{64} << 20;

/// One line that is not blank, without its line end.
struct Line {
  std::string_view text;     ///< Empty where it is too long.
  std::uint64_t number = 0;  ///< From 1, blank lines counted.
  bool too_long = false;     ///< It is longer than the limit; nothing of it is kept.
  LinePlace after;           ///< Where a reader begins with what follows.
};

/// Some lines of an input.
struct LineRange {
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

  LinePlace begin{};
  std::uint64_t skip = 0;             ///< Lines up to this number are left out.
  std::uint64_t end_offset = kNoEnd;  ///< No line that begins here or later.
  std::uint64_t end_line = kNoEnd;    ///< No line after this number.
};

/// Reads lines that end in \n or \r\n, the last one also without; lines of white space are counted and left out, a byte-order mark at the
/// start is skipped. Holds the longest line so far at most, and never more than the limit and one block. For one thread.
class LineReader {
 public:
  enum class Next {
    line,
    end,
    stopped,  ///< The wake descriptor became readable while nothing was buffered; calling again goes on.
  };

  /// Opens `path`, "-" being standard input; see ByteSource::open. Reads nothing yet.
  static Result<LineReader> open(const std::string& path, std::size_t max_line, int wake_fd = -1);

  /// Gives only these lines; before the first call of next or ready.
  /// `stopped` where the wake descriptor became readable first; the reader is then good for nothing more. Errors: ByteSource::skip_to's.
  Result<Next> keep_to(const LineRange& range);

  /// The next line. Its text is valid until the next call of next or ready. Lines that are buffered are given although the wake
  /// descriptor is readable.
  /// Errors: `input`: the file failed in the middle, is truncated or damaged. The whole lines before that have been given.
  Result<Next> next(Line& line);

  /// Whether next() would return at once; false means that it would wait for the input.
  bool ready();

  /// Bytes of the file up to the line that is next; some more where it is packed.
  [[nodiscard]] std::uint64_t file_position() const { return source_.file_position() - (source_.unpacks() ? 0 : end_ - begin_); }
  [[nodiscard]] std::string_view name() const { return source_.name(); }
  [[nodiscard]] ByteSource& source() { return source_; }
  [[nodiscard]] const ByteSource& source() const { return source_; }

 private:
  struct Free {
    void operator()(char* block) const { std::free(block); }
  };

  LineReader(ByteSource source, std::size_t max_line) : source_(std::move(source)), max_line_(max_line) {}
  bool take(Line& line);
  void finish(std::string_view text, Line& line);
  ByteSource::Got fill(bool may_wait);
  bool make_room();
  bool resize(std::size_t capacity);

  ByteSource source_;
  std::size_t max_line_;
  std::unique_ptr<char, Free> buffer_;  ///< From malloc, since realloc moves large blocks without a copy.
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  ///< Of the line that is next.
  std::size_t scan_ = 0;   ///< No line end lies in [begin_, scan_).
  std::size_t end_ = 0;
  std::uint64_t base_ = 0;  ///< Where in the text the buffer begins.
  std::uint64_t number_ = 0;
  LineRange range_;
  bool discarding_ = false;  ///< Inside a line that was too long.
  bool ended_ = false;
  std::optional<Error> failure_;
  std::optional<Line> pending_;  ///< Found by ready().
};

/// A reader for each of `paths`, in their order; nothing is read before all are open. Errors: those of LineReader::open.
Result<std::vector<LineReader>> open_all(std::span<const std::string> paths, std::size_t max_line, int wake_fd = -1);

}  // namespace kime
