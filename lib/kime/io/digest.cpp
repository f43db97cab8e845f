#include "kime/io/digest.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>

namespace kime {
namespace {

constexpr std::uint64_t kEnd = std::uint64_t{1} << 16;

}  // namespace

std::string digest_of(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return fmt::format("{:02x}", fmt::join(canonical.digest, ""));
}

Result<std::string> digest_before(int fd, std::uint64_t end, const std::string& name) {
  std::string bytes(std::min(end, kEnd), '\0');
  const std::uint64_t begin = end - bytes.size();
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(begin + done));
    if (count == 0) {
      return Error(ErrorKind::input, fmt::format("{}: has {} bytes, not {}", name, begin + done, end));
    }
    if (count < 0 && errno != EINTR) {
      return system_error(name, errno);
    }
    done += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  return digest_of(bytes);
}

namespace {

Result<struct stat> regular_file(int fd, const std::string& name) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) {
    return system_error(name, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return Error(ErrorKind::input, fmt::format("{}: is no regular file and cannot be read twice", name));
  }
  return info;
}

}  // namespace

Result<std::uint64_t> regular_bytes(int fd, const std::string& name) {
  const auto info = regular_file(fd, name);
  return info ? Result<std::uint64_t>(static_cast<std::uint64_t>(info->st_size)) : info.error();
}

Result<FileMark> mark_of(int fd, const std::string& name) {
  const auto info = regular_file(fd, name);
  if (!info) {
    return info.error();
  }
  const auto bytes = static_cast<std::uint64_t>(info->st_size);
  const auto first = digest_before(fd, std::min(bytes, kEnd), name);
  if (!first) {
    return first.error();
  }
  const auto last = digest_before(fd, bytes, name);
  if (!last) {
    return last.error();
  }
  return FileMark{bytes, fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09} UTC", fmt::gmtime(info->st_mtim.tv_sec), info->st_mtim.tv_nsec),
                  digest_of(*first + *last)};
}

}  // namespace kime
