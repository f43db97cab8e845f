#include "kime/results/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

namespace kime {
namespace {

constexpr std::size_t kHeld = std::size_t{1} << 18;

Error spill_error(const std::string& folder, std::string_view what) {
  return {ErrorKind::input,
          fmt::format("{}: {} a temporary file: {} (TMPDIR names another folder)", folder, what, std::generic_category().message(errno))};
}

std::vector<std::string> folders() {
  const char* named = std::getenv("TMPDIR");
  if (named != nullptr && *named != '\0') {
    return {named};
  }
  return {"/var/tmp", "/tmp"};
}

int open_nameless(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
    return fd;
  }
  std::string path = folder + "/kime-XXXXXX";  // a file system that has no files without a name
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) {
    ::unlink(path.c_str());
  }
  return named;
}

}  // namespace

Status SpillFile::open() {
  for (const std::string& folder : folders()) {
    folder_ = folder;
    fd_ = Descriptor(open_nameless(folder));
    if (fd_.get() >= 0) {
      return {};
    }
  }
  return spill_error(folder_, "cannot make");
}

Status SpillFile::flush() {
  if (fd_.get() < 0) {
    if (auto opened = open(); !opened) {
      return opened;
    }
  }
  std::size_t done = 0;
  while (done < held_.size()) {
    const ssize_t count = ::pwrite(fd_.get(), held_.data() + done, held_.size() - done, static_cast<off_t>(written_ + done));
    if (count < 0 && errno != EINTR) {
      return spill_error(folder_, "cannot write");
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  written_ += held_.size();
  held_.clear();
  return {};
}

Result<std::uint64_t> SpillFile::append(std::string_view bytes) {
  const std::uint64_t begin = size();
  held_ += bytes;
  if (held_.size() >= kHeld) {
    if (auto flushed = flush(); !flushed) {
      return flushed.error();
    }
  }
  return begin;
}

Status SpillFile::read(std::uint64_t offset, std::span<char> out) {
  std::size_t done = 0;
  while (done < out.size() && offset + done < written_) {
    const std::size_t wanted = std::min<std::uint64_t>(out.size() - done, written_ - offset - done);
    const ssize_t count = ::pread(fd_.get(), out.data() + done, wanted, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      errno = count == 0 ? EIO : errno;
      return spill_error(folder_, "cannot read");
    }
    done += static_cast<std::size_t>(count);
  }
  if (done < out.size()) {
    std::memcpy(out.data() + done, held_.data() + (offset + done - written_), out.size() - done);
  }
  return {};
}

}  // namespace kime
