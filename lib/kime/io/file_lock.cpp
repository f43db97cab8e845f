#include "kime/io/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kime {
namespace {

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<bool> lock_file(int fd, const std::string& name) {
  struct flock lock = whole_file();
  if (::fcntl(fd, F_SETLK, &lock) == 0) {
    return true;
  }
  if (errno == EACCES || errno == EAGAIN) {
    return false;
  }
  return Error(ErrorKind::input, fmt::format("{}: cannot be locked: {}", name, std::generic_category().message(errno)));
}

Status check_unlocked(int fd, const std::string& output) {
  struct flock lock = whole_file();
  if (::fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) {
    return {};
  }
  // No process here has a number where it is in another container, or on another machine of a network file system.
  const std::string who = lock.l_pid > 0 ? fmt::format("process {}", lock.l_pid) : "a process of another container or machine";
  return Error(ErrorKind::input, fmt::format("{}: {} writes it; one job an output", output, who));
}

}  // namespace kime
