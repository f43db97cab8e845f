#include "tests/cuda/shim/memory.h"

#include <map>
#include <mutex>

namespace kime::cuda::shim {

namespace {

struct Ranges {
  std::mutex mutex;
  std::map<std::uintptr_t, Range> by_begin;
};

Ranges& ranges() {
  static Ranges all;
  return all;
}

}  // namespace

Registration::Registration(const void* memory, std::size_t bytes, bool writable) : begin_(reinterpret_cast<std::uintptr_t>(memory)) {
  const std::lock_guard lock(ranges().mutex);
  ranges().by_begin[begin_] = {begin_, begin_ + bytes, writable};
}

Registration::~Registration() {
  const std::lock_guard lock(ranges().mutex);
  ranges().by_begin.erase(begin_);
}

std::vector<Range> registered() {
  const std::lock_guard lock(ranges().mutex);
  std::vector<Range> all;
  all.reserve(ranges().by_begin.size());
  for (const auto& [begin, range] : ranges().by_begin) {
    all.push_back(range);
  }
  return all;
}

}  // namespace kime::cuda::shim
