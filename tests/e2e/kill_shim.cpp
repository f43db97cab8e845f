// Preloaded into kime (LD_PRELOAD): ends the process, as kill -9 does, in the middle of a call that changes an output's files.
//
//   KIME_KILL_PREFIX   a path; calls count for files whose names begin with it
//   KIME_KILL_CALL     write, sync, rename, truncate or unlink
//   KIME_KILL_AT       which of these calls, from 1
//   KIME_KILL_WHEN     before, inside (a write has then taken half of its bytes; at any other call the kill comes from another thread
//                      while it runs) or after; default inside
//   KIME_KILL_POWER    anything: what was not synced to the disk is lost as well
//   KIME_KILL_ERROR    an errno: the call fails with it from then on, and nothing is killed
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "lost_power.h"

namespace {

std::string_view setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <class Call>
Call* real(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

std::string path_of(int fd) {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(size < 0 ? 0 : size)};
}

// Whether this is the call to act on.
bool aimed_at(std::string_view call, std::string_view path) {
  static std::atomic<long> calls = 0;
  const auto prefix = setting("KIME_KILL_PREFIX");
  if (prefix.empty() || setting("KIME_KILL_CALL") != call || !path.starts_with(prefix)) {
    return false;
  }
  const long number = ++calls;
  const long at = std::atol(setting("KIME_KILL_AT").data());
  return setting("KIME_KILL_ERROR").empty() ? number == at : number >= at;
}

std::atomic<bool> dying = false;

// Where the power is to be lost, and is not yet.
LostPower* power() {
  static auto* const lost = setting("KIME_KILL_POWER").empty() ? nullptr : new LostPower(std::string(setting("KIME_KILL_PREFIX")));
  return dying ? nullptr : lost;
}

// Over a call: nothing else happens to the files meanwhile where that would be heard of too late.
std::unique_lock<std::recursive_mutex> hold() {
  return power() == nullptr ? std::unique_lock<std::recursive_mutex>() : std::unique_lock(power()->mutex);
}

[[noreturn]] void die() {
  if (auto* const lost = power(); lost != nullptr) {
    dying = true;  // its own calls come here too
    lost->lose();
  }
  kill(getpid(), SIGKILL);
  for (;;) {
    pause();
  }
}

// A call that returns 0, or -1 with errno.
template <class Do>
int shimmed(std::string_view call, std::string_view path, const Do& run) {
  if (!aimed_at(call, path)) {
    return run();
  }
  if (const auto error = setting("KIME_KILL_ERROR"); !error.empty()) {
    errno = std::atoi(error.data());
    return -1;
  }
  const auto when = setting("KIME_KILL_WHEN");
  std::thread other;
  if (when != "before" && when != "after" && power() == nullptr) {
    other = std::thread(die);
  }
  if (when != "before") {
    run();
  }
  die();
}

int synced(int fd, int (*sync)(int)) {
  const auto held = hold();
  const std::string path = path_of(fd);
  return shimmed("sync", path, [&] {
    struct stat before = {};
    fstat(fd, &before);
    const int done = sync(fd);
    if (power() != nullptr && done == 0) {
      power()->synced(path, before.st_size);
    }
    return done;
  });
}

template <class Do>
int renamed(const char* from, const char* to, const Do& run) {
  const auto held = hold();
  return shimmed("rename", from, [&] {
    if (power() != nullptr) {
      power()->renames(from, to);
    }
    return run();
  });
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, size_t count) {
  static auto* const next = real<decltype(write)>("write");
  const std::string path = path_of(fd);
  const auto held = hold();
  if (power() != nullptr) {
    power()->wrote(path);
  }
  if (!aimed_at("write", path)) {
    return next(fd, bytes, count);
  }
  if (const auto error = setting("KIME_KILL_ERROR"); !error.empty()) {
    static std::atomic<bool> full = false;  // a disk takes what it has room for, and says so at the next call
    if (!full.exchange(true) && count > 1) {
      return next(fd, bytes, count / 2);
    }
    errno = std::atoi(error.data());
    return -1;
  }
  const auto when = setting("KIME_KILL_WHEN");
  if (when != "before") {
    next(fd, bytes, when == "after" ? count : count / 2);
  }
  die();
}

int fsync(int fd) {
  return synced(fd, real<decltype(fsync)>("fsync"));
}

int fdatasync(int fd) {
  return synced(fd, real<decltype(fdatasync)>("fdatasync"));
}

int ftruncate(int fd, off_t size) noexcept {
  const auto held = hold();
  return shimmed("truncate", path_of(fd), [=] {
    if (power() != nullptr) {
      power()->truncated(path_of(fd), size);
    }
    return real<decltype(ftruncate)>("ftruncate")(fd, size);
  });
}

int rename(const char* from, const char* to) noexcept {
  return renamed(from, to, [=] { return real<decltype(rename)>("rename")(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return renamed(from, to, [=] { return real<decltype(renameat2)>("renameat2")(from_folder, from, to_folder, to, flags); });
}

int unlink(const char* path) noexcept {
  const auto held = hold();
  return shimmed("unlink", path, [=] {
    if (power() != nullptr) {
      power()->unlinks(path);
    }
    return real<decltype(unlink)>("unlink")(path);
  });
}

}  // extern "C"
