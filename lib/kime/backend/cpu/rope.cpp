#include "kime/backend/cpu/rope.h"

#include <algorithm>
#include <bit>

namespace kime::cpu {

namespace {

constexpr std::size_t kSmallest = 4096;  // positions: room for most sequences, so that small buckets share one table

}  // namespace

RopeTable::RopeTable(float theta, std::size_t head_width, std::size_t capacity, Pages memory)
    : angles_(theta, head_width), capacity_(capacity), memory_(std::move(memory)) {
}

Result<std::unique_ptr<RopeTable>> RopeTable::make(float theta, std::size_t head_width, std::size_t capacity) {
  auto memory = Pages::make(capacity * head_width * sizeof(float));
  if (!memory) {
    return std::move(memory).error();
  }
  return std::unique_ptr<RopeTable>(new RopeTable(theta, head_width, capacity, *std::move(memory)));
}

void RopeTable::fill(std::size_t positions) {
  if (filled_.load(std::memory_order_acquire) >= positions) {
    return;
  }
  const std::lock_guard lock(filling_);
  float* cosine = memory_.floats().data();
  angles_.fill(filled_.load(std::memory_order_relaxed), positions, cosine, cosine + capacity_ * angles_.half());
  filled_.store(std::max(positions, filled_.load(std::memory_order_relaxed)), std::memory_order_release);
}

Result<std::shared_ptr<RopeTable>> RopeTables::get(float theta, std::size_t head_width, std::size_t positions) {
  const std::lock_guard lock(mutex_);
  auto found = std::ranges::find_if(tables_, [&](const auto& table) { return table->is_for(theta, head_width); });
  if (found != tables_.end() && (*found)->capacity() >= positions) {
    return *found;
  }
  auto made = RopeTable::make(theta, head_width, std::bit_ceil(std::max(positions, kSmallest)));
  if (!made) {
    return std::move(made).error();
  }
  std::shared_ptr<RopeTable> table = *std::move(made);
  if (found == tables_.end()) {
    tables_.push_back(table);
  } else {
    *found = table;
  }
  return table;
}

}  // namespace kime::cpu
