// A block's memory: what is shared, what is copied into it, and where global memory may be touched.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/cuda/shim/block.h"
#include "tests/cuda/shim/launch.h"

namespace kime::cuda::shim {

namespace {

constexpr std::size_t kSharedAlign = 16;  // what kernels may count on
constexpr std::size_t kCopyBytes = 16;

bool misaligned(const void* at, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(at) % alignment != 0;
}

}  // namespace

// As aligned as shared memory is and no more, so that a kernel that counts on more fails.
Block::Area::Area(const Site* s, std::size_t size) : site(s), storage(size + 4 * kSharedAlign), bytes(size), shadow(size) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(storage.data()) % (2 * kSharedAlign);
  data = storage.data() + (3 * kSharedAlign - past) % (2 * kSharedAlign);
}

void Block::Area::poison() {
  std::fill(storage.begin(), storage.end(), std::byte{0xFF});
}

void* Block::shared(const Site& site, std::size_t bytes) {
  const auto found = std::find_if(statics_.begin(), statics_.end(), [&](const auto& area) { return area->site == &site; });
  if (found != statics_.end()) {
    return (*found)->data;
  }
  const auto add = [](std::size_t sum, const auto& area) { return sum + area->bytes; };
  if (std::accumulate(statics_.begin(), statics_.end(), bytes, add) > kMostStaticBytes) {
    fault(fmt::format("more than {} bytes of static shared memory with {}", kMostStaticBytes, site.name));
  }
  statics_.push_back(std::make_unique<Area>(&site, bytes));
  statics_.back()->poison();
  return statics_.back()->data;
}

Access Block::access() const {
  return {epoch_, warp_epochs_[running_ / kWarp], static_cast<std::uint16_t>(running_), false};
}

Block::Spot Block::find(const void* at, std::size_t bytes, std::size_t alignment, const char* doing) {
  const auto* p = static_cast<const std::byte*>(at);
  const auto inside = [&](const Area& area) { return p >= area.data && p + bytes <= area.data + area.bytes; };
  Area* area = inside(dynamic_area_) ? &dynamic_area_ : nullptr;
  for (auto& candidate : statics_) {
    area = area == nullptr && inside(*candidate) ? candidate.get() : area;
  }
  if (area == nullptr) {
    const std::ptrdiff_t from_dynamic = p - dynamic_area_.data;
    fault(
        fmt::format("{} {} bytes outside shared memory (at byte {} of {} dynamic ones)", doing, bytes, from_dynamic, dynamic_area_.bytes));
  }
  if (misaligned(at, alignment)) {
    fault(fmt::format("{} {} bytes of shared memory at byte {}: not a multiple of {}", doing, bytes, p - area->data, alignment));
  }
  return {area, static_cast<std::size_t>(p - area->data)};
}

void Block::read_shared(const void* from, std::size_t bytes, std::size_t alignment) {
  const Spot spot = find(from, bytes, alignment, "reads");
  require(spot.area->shadow.read(spot.offset, bytes, access()));
  const auto* p = static_cast<const std::byte*>(from);
  if (!spot.area->shadow.written(spot.offset, bytes, first_epoch_) &&
      std::all_of(p, p + bytes, [](std::byte b) { return b == std::byte{0xFF}; })) {
    fault(fmt::format("reads shared memory at byte {} that nothing has written", spot.offset));
  }
}

void Block::read_shared_by_warp(const void* from, std::size_t bytes, unsigned lane) {
  const Spot spot = find(from, bytes, bytes, "reads");
  Access by = access();
  by.thread = static_cast<std::uint16_t>(running_ / kWarp * kWarp + lane);
  by.whole_warp = true;
  require(spot.area->shadow.read(spot.offset, bytes, by));
}

void Block::write_shared(const void* to, std::size_t bytes, std::size_t alignment) {
  const Spot spot = find(to, bytes, alignment, "writes");
  require(spot.area->shadow.write(spot.offset, bytes, access()));
}

void Block::check_global(const void* at, std::size_t bytes, std::size_t alignment, bool write) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  auto range = std::upper_bound(global_.begin(), global_.end(), address, [](std::uintptr_t a, const Range& r) { return a < r.begin; });
  const char* doing = write ? "writes" : "reads";
  if (range == global_.begin()) {
    fault(fmt::format("{} {} bytes outside all buffers", doing, bytes));
  }
  --range;
  if (address + bytes > range->end) {
    fault(fmt::format("{} {} bytes at byte {} of a buffer of {}", doing, bytes, address - range->begin, range->end - range->begin));
  }
  if (write && !range->writable) {
    fault(fmt::format("writes {} bytes at byte {} of a buffer that is only read", bytes, address - range->begin));
  }
  if (misaligned(at, alignment)) {
    fault(fmt::format("{} {} bytes at byte {} of a buffer: its address is not a multiple of {}", doing, bytes, address - range->begin,
                      alignment));
  }
}

// The bytes are lost from now until the copy lands.
void Block::copy_async(void* to, const void* from, bool inside) {
  const Spot spot = find(to, kCopyBytes, kCopyBytes, "copies");
  if (inside) {
    check_global(from, kCopyBytes, kCopyBytes, false);
  }
  require(spot.area->shadow.begin_copy(spot.offset, kCopyBytes, access()));
  std::memset(to, 0xFF, kCopyBytes);
  threads_[running_]->uncommitted.push_back({static_cast<std::byte*>(to), from, inside, false});
  if (chance(8)) {
    land(threads_[running_]->uncommitted.back());
  }
}

void Block::land(Copy& copy) {
  if (copy.landed) {
    return;
  }
  if (copy.inside) {
    std::memcpy(copy.to, copy.from, kCopyBytes);
  } else {
    std::memset(copy.to, 0, kCopyBytes);
  }
  copy.landed = true;
}

void Block::finish(std::vector<Copy>& copies) {
  for (Copy& copy : copies) {
    land(copy);
    const Spot spot = find(copy.to, kCopyBytes, kCopyBytes, "copies");
    spot.area->shadow.end_copy(spot.offset, kCopyBytes, access());
  }
}

void Block::commit_copies() {
  Thread& thread = *threads_[running_];
  thread.groups.push_back(std::move(thread.uncommitted));
  thread.uncommitted.clear();
}

void Block::wait_for_copies(std::size_t groups_left) {
  Thread& thread = *threads_[running_];
  while (thread.groups.size() > groups_left) {
    finish(thread.groups.front());
    thread.groups.pop_front();
  }
}

// Some copy of the warp arrives before anybody waits for it.
void Block::land_one(unsigned warp) {
  Thread& thread = *threads_[warp * kWarp + random_() % kWarp];
  if (!thread.groups.empty()) {
    std::vector<Copy>& group = thread.groups[random_() % thread.groups.size()];
    if (!group.empty()) {
      land(group[random_() % group.size()]);
    }
  }
}

}  // namespace kime::cuda::shim
