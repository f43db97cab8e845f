// Parts of a job for many machines: contiguous ranges of whole lines, so that the outputs of all parts, one after another, are the whole
// job's.
//
// The inputs stand one after another as the bytes that they have on disk, T in all, and part I of N begins at byte T (I - 1) / N and ends
// where the next one begins. A line belongs to the part in which its first byte stands. Inside a compressed file nothing is known of
// lines by their bytes: a cut at byte b of its s is one after line L b / s of its L, for which the file is unpacked once more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kime/base/error.h"
#include "kime/io/byte_source.h"
#include "kime/io/line_reader.h"

namespace kime {

/// Part `index` of `count`, from 1.
struct Shard {
  std::uint64_t index = 1;
  std::uint64_t count = 1;
};

/// "3/8". Errors: `input`: not that, or out of range.
Result<Shard> parse_shard(std::string_view text);

/// A part of a file on disk.
struct FilePart {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;   ///< Past the last byte; as `begin` where the file is not in the shard.
  std::uint64_t size = 0;  ///< Of the whole file.
};

/// What a shard has of each of the files of these sizes.
[[nodiscard]] std::vector<FilePart> file_parts(std::span<const std::uint64_t> sizes, Shard shard);

/// The lines of a part. Reads a file up to where the part begins, in order to count lines (a packed one to its end), unless `known` says
/// where that is or whatever comes later in the part; leaves the source anywhere. Nothing where the source's wake descriptor became
/// readable first.
/// Errors: those of ByteSource.
Result<std::optional<LineRange>> lines_of(ByteSource& source, const FilePart& part, const std::optional<LinePlace>& known);

}  // namespace kime
