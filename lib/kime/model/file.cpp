#include "kime/model/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kime {
File::~File() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

Result<std::optional<File>> File::open_if_present(const std::string& path) {
  File file;
  file.path_ = path;
  // O_NONBLOCK: a named pipe in the place of a file is an error, not a wait. It means nothing for regular files.
  do {
    file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (file.descriptor_ < 0 && errno == EINTR);
  if (file.descriptor_ < 0) {
    if (errno == ENOENT) {
      return std::optional<File>();
    }
    return system_error(path, errno);
  }
  struct stat status = {};
  if (fstat(file.descriptor_, &status) != 0) {
    return system_error(path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return Error(ErrorKind::input,
                 fmt::format("{}: {}; expected a file", path, S_ISDIR(status.st_mode) ? "a directory" : "no regular file"));
  }
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return std::optional<File>(std::move(file));
}

Result<File> File::open(const std::string& path) {
  auto file = open_if_present(path);
  if (!file) {
    return std::move(file).error();
  }
  if (!file->has_value()) {
    return system_error(path, ENOENT);
  }
  return **std::move(file);
}

Status File::read(std::uint64_t offset, std::span<std::byte> out) const {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // some systems refuse or cut larger reads
  while (!out.empty()) {
    const auto got = pread(descriptor_, out.data(), std::min(out.size(), kMost), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return system_error(path_, errno);
    }
    if (got == 0) {
      return Error(ErrorKind::input, fmt::format("{}: ends at byte {}, {} bytes early; it has become shorter", path_, offset, out.size()));
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::string> File::text(std::uint64_t limit) const {
  if (size_ > limit) {
    return Error(ErrorKind::input, fmt::format("{}: {} bytes; expected at most {}", path_, size_, limit));
  }
  std::string content(static_cast<std::size_t>(size_), '\0');
  if (auto status = read(0, std::as_writable_bytes(std::span(content))); !status) {
    return status.error();
  }
  return content;
}

}  // namespace kime
