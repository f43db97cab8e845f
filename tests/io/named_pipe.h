// A pipe that a test opens by its name.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "tests/io/temp_folder.h"

/// A named pipe, to be opened by path on one side and written on the other.
class NamedPipe {
 public:
  explicit NamedPipe(const TempFolder& folder) : path_(folder.path("pipe")) {
    REQUIRE(mkfifo(path_.c_str(), 0600) == 0);
    fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);  // Both ends, so that opening does not wait.
    REQUIRE(fd_ >= 0);
  }
  NamedPipe(const NamedPipe&) = delete;
  NamedPipe& operator=(const NamedPipe&) = delete;
  ~NamedPipe() { close_writer(); }

  [[nodiscard]] const std::string& path() const { return path_; }
  void write(std::string_view text) const { REQUIRE(::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size())); }
  void close_writer() {
    if (fd_ >= 0) {
      close(fd_);
      fd_ = -1;
    }
  }

 private:
  std::string path_;
  int fd_ = -1;
};
