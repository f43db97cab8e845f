// Digests that tell files apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kime/base/error.h"

namespace kime {

/// 128 bits of XXH3 (https://xxhash.com), as 32 hexadecimal digits, the most significant first.
[[nodiscard]] std::string digest_of(std::string_view bytes);

/// The digest of up to 64 KiB of an open file that end at byte `end`. Errors: `input`, naming the file, also where it is shorter.
Result<std::string> digest_before(int fd, std::uint64_t end, const std::string& name);

/// The size of an open regular file. Errors: `input`, naming the file: the system fails, or it is no regular file ("cannot be read twice").
Result<std::uint64_t> regular_bytes(int fd, const std::string& name);

/// What a regular file is told by, short of reading all of it.
struct FileMark {
  std::uint64_t bytes = 0;
  std::string modified;  ///< "2026-01-31 23:59:59.123456789 UTC"
  std::string ends;      ///< A digest of its first and its last 64 KiB.
};

/// Errors: those of regular_bytes() and digest_before().
Result<FileMark> mark_of(int fd, const std::string& name);

}  // namespace kime
