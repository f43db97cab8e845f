#include "kime/results/report_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "kime/base/same_file.h"
#include "kime/io/output.h"

namespace kime {
namespace {

bool is_same_file(const struct stat& file, const std::string& other) {
  struct stat info = {};
  const int found = other == "-" ? ::fstat(STDIN_FILENO, &info) : ::stat(other.c_str(), &info);
  return found == 0 && same_file(info, file);
}

}  // namespace

ReportFile::ReportFile(std::string path, std::string partial, int fd) : path_(std::move(path)), partial_(std::move(partial)), fd_(fd) {
}

ReportFile::ReportFile(ReportFile&& other) noexcept
    : path_(std::move(other.path_)), partial_(std::exchange(other.partial_, {})), fd_(std::move(other.fd_)) {
}

ReportFile::~ReportFile() {
  if (!partial_.empty()) {
    ::unlink(partial_.c_str());
  }
}

Result<ReportFile> ReportFile::open(const std::string& path, std::span<const std::string> inputs) {
  struct stat info = {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists) {
    for (const std::string& input : inputs) {
      if (S_ISREG(info.st_mode) && is_same_file(info, input)) {
        return Error(ErrorKind::input, fmt::format("{}: is also an input", path));
      }
    }
  }
  const bool as_it_is = exists && !S_ISREG(info.st_mode);
  std::error_code error;
  std::string place = path;  // a link stays, and what it names is replaced
  if (exists && !as_it_is) {
    const auto canonical = std::filesystem::canonical(path, error);
    place = error ? path : canonical.string();
  }
  const std::string partial = as_it_is ? "" : fmt::format("{}.partial{}", place, ::getpid());
  const int fd = ::open(as_it_is ? path.c_str() : partial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (as_it_is ? 0 : O_TRUNC), 0666);
  if (fd < 0) {
    return system_error(path, errno);
  }
  return ReportFile(std::move(place), partial, fd);
}

Status ReportFile::finish(std::string_view content) {
  Output output(fd_.get(), path_);
  if (output.append(content) != OutputState::ok || output.flush() != OutputState::ok) {
    return Error(ErrorKind::input, output.message());
  }
  if (::close(fd_.release()) != 0) {
    return system_error(path_, errno);
  }
  if (!partial_.empty() && std::rename(partial_.c_str(), path_.c_str()) != 0) {
    return system_error(path_, errno);
  }
  partial_.clear();
  return {};
}

}  // namespace kime
