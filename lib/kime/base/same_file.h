// Whether two names mean one file.
#pragma once

#include <sys/stat.h>

namespace kime {

[[nodiscard]] inline bool same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace kime
