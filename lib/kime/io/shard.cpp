#include "kime/io/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <numeric>
#include <system_error>

namespace kime {
namespace {

constexpr std::uint64_t kMostShards = 1'000'000'000;

// What a count of lines came to.
struct Counted {
  ByteSource::Got got = ByteSource::Got::bytes;
  std::uint64_t lines = 0;  ///< Line ends.
  std::uint64_t bytes = 0;
  bool open = false;  ///< The last line has no end.
};

// x * a / b for a <= b, which a 64-bit product might not hold.
std::uint64_t scaled(std::uint64_t x, std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(x) * a / b);
}

std::uint64_t line_ends(std::string_view text) {
  std::uint64_t count = 0;
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    ++count;
  }
  return count;
}

// From where the source is: at most `most` bytes, and no further than the first line end if it is wanted.
Result<Counted> count(ByteSource& source, std::uint64_t most, bool first_only = false) {
  constexpr std::size_t kBlock = std::size_t{1} << 18;
  const auto block = std::make_unique<char[]>(kBlock);
  Counted counted;
  while (counted.bytes < most) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, most - counted.bytes));
    const auto got = source.read({block.get(), wanted}, true);
    if (!got) {
      return got.error();
    }
    if (got->got != ByteSource::Got::bytes) {
      counted.got = got->got;
      break;
    }
    const std::string_view text(block.get(), got->count);
    if (const auto end = text.find('\n'); first_only && end != std::string_view::npos) {
      counted.bytes += end + 1;
      counted.lines = 1;
      break;
    }
    counted.lines += line_ends(text);
    counted.bytes += text.size();
    counted.open = text.back() != '\n';
  }
  return counted;
}

Result<Counted> count_from(ByteSource& source, std::uint64_t from, std::uint64_t most, bool first_only = false) {
  const auto there = source.skip_to(from);
  if (!there) {
    return there.error();
  }
  return *there == ByteSource::Got::stopped ? Counted{.got = *there} : count(source, most, first_only);
}

using Range = Result<std::optional<LineRange>>;

Range not_counted(const Result<Counted>& counted) {
  return counted ? Range(std::optional<LineRange>()) : Range(counted.error());
}

bool is_whole(const Result<Counted>& counted) {
  return counted && counted->got != ByteSource::Got::stopped;
}

Range lines_of_packed(ByteSource& source, const FilePart& part, const std::optional<LinePlace>& known) {
  const auto all = count_from(source, 0, LineRange::kNoEnd);
  if (!is_whole(all)) {
    return not_counted(all);
  }
  const std::uint64_t lines = all->lines + (all->open ? 1 : 0);
  LineRange range;
  range.begin = known.value_or(LinePlace());
  range.skip = scaled(lines, part.begin, part.size);
  range.end_line = scaled(lines, part.end, part.size);
  return std::optional(range);
}

Range lines_of_plain(ByteSource& source, const FilePart& part, const std::optional<LinePlace>& known) {
  LineRange range;
  range.end_offset = part.end;
  range.begin = known.value_or(LinePlace());
  if (known || part.begin == 0) {
    return std::optional(range);
  }
  // From the byte before: a line that begins at the cut is this part's.
  const auto rest = count_from(source, part.begin - 1, LineRange::kNoEnd, true);
  if (!is_whole(rest)) {
    return not_counted(rest);
  }
  range.begin.offset = part.begin - 1 + rest->bytes;
  if (range.begin.offset < part.end) {  // else no line begins here, and none needs a number
    const auto before = count_from(source, 0, range.begin.offset);
    if (!is_whole(before)) {
      return not_counted(before);
    }
    range.begin.line = before->lines;
  }
  return std::optional(range);
}

}  // namespace

Result<Shard> parse_shard(std::string_view text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = slash ? std::from_chars(first.ptr + 1, end, shard.count) : first;
  if (!slash || second.ec != std::errc() || second.ptr != end) {
    return Error(ErrorKind::input, fmt::format("'{}' is no shard: the third of eight is 3/8", text));
  }
  if (shard.count < 1 || shard.count > kMostShards) {
    return Error(ErrorKind::input, fmt::format("'{}': there are 1 to {} shards", text, kMostShards));
  }
  if (shard.index < 1 || shard.index > shard.count) {
    return Error(ErrorKind::input,
                 fmt::format("'{}': shards of {} are 1/{} to {}/{}", text, shard.count, shard.count, shard.count, shard.count));
  }
  return shard;
}

std::vector<FilePart> file_parts(std::span<const std::uint64_t> sizes, Shard shard) {
  const std::uint64_t total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const std::uint64_t begin = scaled(total, shard.index - 1, shard.count);
  const std::uint64_t end = scaled(total, shard.index, shard.count);
  std::vector<FilePart> parts;
  std::uint64_t at = 0;
  for (const std::uint64_t size : sizes) {
    parts.push_back({std::clamp(begin, at, at + size) - at, std::clamp(end, at, at + size) - at, size});
    at += size;
  }
  return parts;
}

Result<std::optional<LineRange>> lines_of(ByteSource& source, const FilePart& part, const std::optional<LinePlace>& known) {
  const auto packed = source.packed();
  if (!packed) {
    return packed.error();
  }
  if (!*packed) {
    return std::optional<LineRange>();
  }
  return **packed ? lines_of_packed(source, part, known) : lines_of_plain(source, part, known);
}

}  // namespace kime
