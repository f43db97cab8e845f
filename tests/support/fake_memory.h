// Memory of fake devices: poisoned, fenced, and counted in a place that outlives the driver.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kime/runtime/driver.h"

namespace kime::test {

/// What fake drivers leave behind: how much is allocated, how often each function was called, and what they saw go wrong.
class FakeLedger {
 public:
  std::atomic<std::uint64_t> opens{0};
  std::atomic<std::uint64_t> compiles{0};
  std::atomic<std::uint64_t> links{0};
  std::atomic<std::uint64_t> loads{0};
  std::atomic<std::uint64_t> runs{0};
  std::array<std::atomic<std::uint64_t>, kPrecisions.size()> loads_by_precision{};
  std::atomic<std::uint64_t> streams{0};                       ///< That exist now.
  std::array<std::atomic<std::uint64_t>, 3> allocs_by_mode{};  ///< By MemoryMode.

  /// A batch of so many sequences has been computed.
  void ran(Precision precision, std::size_t seqs) {
    const std::lock_guard lock(mutex_);
    auto& most = most_seqs_[static_cast<std::size_t>(precision)];
    most = std::max(most, seqs);
  }
  /// The most sequences in one batch; 0 where there was none.
  [[nodiscard]] std::size_t most_seqs(Precision precision) {
    const std::lock_guard lock(mutex_);
    return most_seqs_[static_cast<std::size_t>(precision)];
  }

  void allocated(std::size_t device, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    live_[device] += bytes;
  }
  void freed(std::size_t device, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    live_[device] -= bytes;
    moved_.notify_all();
  }
  [[nodiscard]] std::size_t live(std::size_t device) {
    const std::lock_guard lock(mutex_);
    return live_[device];
  }
  /// Waits until nothing is allocated any more, on any device. False after ten seconds.
  [[nodiscard]] bool wait_empty() {
    std::unique_lock lock(mutex_);
    return moved_.wait_for(lock, std::chrono::seconds(10),
                           [&] { return std::ranges::all_of(live_, [](const auto& each) { return each.second == 0; }); });
  }

  /// A broken rule of the driver's contract: memory used after it was freed, past its end, ...
  void violation(std::string what) {
    const std::lock_guard lock(mutex_);
    violations_.push_back(std::move(what));
  }
  [[nodiscard]] std::vector<std::string> violations() {
    const std::lock_guard lock(mutex_);
    return violations_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::map<std::size_t, std::size_t> live_;
  std::array<std::size_t, kPrecisions.size()> most_seqs_{};
  std::vector<std::string> violations_;
};

/// One allocation. What is under way on a device keeps it, so that use after free is seen, not suffered.
class FakeBlock {
 public:
  static constexpr std::byte kPoison{0xA5};

  FakeBlock(std::size_t device, std::size_t bytes, std::size_t alignment, std::shared_ptr<FakeLedger> ledger)
      : device_(device), bytes_(bytes), ledger_(std::move(ledger)), memory_(bytes + alignment + 2 * kFence, kFenceByte) {
    void* at = memory_.data() + kFence;
    std::size_t room = bytes + alignment;
    start_ = static_cast<std::byte*>(std::align(alignment, bytes, at, room));
    std::fill_n(start_, bytes_, kPoison);
    ledger_->allocated(device_, bytes_);
  }
  FakeBlock(const FakeBlock&) = delete;
  FakeBlock& operator=(const FakeBlock&) = delete;
  ~FakeBlock() = default;

  /// The slab has gone.
  void free() {
    if (freed_.exchange(true)) {
      ledger_->violation("freed twice");
    }
    const auto whole = [](const std::byte* from, const std::byte* to) {
      return std::all_of(from, to, [](std::byte byte) { return byte == kFenceByte; });
    };
    if (!whole(memory_.data(), start_) || !whole(start_ + bytes_, memory_.data() + memory_.size())) {
      ledger_->violation("written past the ends of a slab");
    }
    ledger_->freed(device_, bytes_);
  }
  /// `bytes` from `offset` on; null, and a violation, where they are not to be had.
  [[nodiscard]] std::byte* at(std::size_t offset, std::size_t bytes) const {
    if (freed_) {
      ledger_->violation("memory used after it was freed");
      return nullptr;
    }
    if (offset > bytes_ || bytes > bytes_ - offset) {
      ledger_->violation("memory used past its end");
      return nullptr;
    }
    return start_ + offset;
  }
  [[nodiscard]] std::size_t device() const { return device_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kFence = 64;
  static constexpr std::byte kFenceByte{0xFD};
  std::size_t device_;
  std::size_t bytes_;
  std::shared_ptr<FakeLedger> ledger_;
  std::vector<std::byte> memory_;
  std::byte* start_ = nullptr;
  std::atomic<bool> freed_{false};
};

/// Frees its block.
class FakeSlab {
 public:
  explicit FakeSlab(std::shared_ptr<FakeBlock> block) : block_(std::move(block)) {}
  FakeSlab(FakeSlab&& other) noexcept = default;
  FakeSlab& operator=(FakeSlab&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  FakeSlab(const FakeSlab&) = delete;
  FakeSlab& operator=(const FakeSlab&) = delete;
  ~FakeSlab() {
    if (block_) {
      block_->free();
    }
  }
  [[nodiscard]] const std::shared_ptr<FakeBlock>& block() const { return block_; }

 private:
  std::shared_ptr<FakeBlock> block_;
};

/// A place whose memory stays.
struct FakeAt {
  std::shared_ptr<FakeBlock> block;
  std::size_t offset = 0;

  FakeAt() = default;
  explicit FakeAt(const Place<FakeSlab>& place) : block(place.slab->block()), offset(place.offset) {}
  [[nodiscard]] std::byte* data(std::size_t from, std::size_t bytes) const { return block->at(offset + from, bytes); }
};

}  // namespace kime::test
