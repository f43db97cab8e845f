// Faults for FakeDriver to meet: when, where and of which kind; and how many were met.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kime::test {

/// Mixes a word into a hash (Steele et al. 2014, splitmix64's finalizer).
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  std::uint64_t x = hash ^ (word + 0x9E3779B97F4A7C15ULL + (hash << 6) + (hash >> 2));
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

enum class FakeFault : std::uint8_t {
  none,
  soft,    ///< One call fails, the next may work.
  lost,    ///< The device fails for good.
  hang,    ///< The call does not come back before release(); then it does what it was to do.
  copy,    ///< A copy fails, softly.
  memory,  ///< An allocation fails.
  start,   ///< make_stream, alloc or load fails, always.
};
inline constexpr std::array<const char*, 7> kFakeFaultNames = {"none", "soft", "lost", "hang", "copy", "memory", "start"};

/// From any thread. Numbers count from 1, on each device of its own.
class FakeFaults {
 public:
  struct Plan {
    bool no_streams = false;
    bool no_memory = false;
    bool no_load = false;
    std::optional<std::uint64_t> lost_at_run;  ///< At this run or, should it not be seen, a later one.
    std::optional<std::uint64_t> soft_at_run;
    std::optional<std::uint64_t> soft_from_run;  ///< And at all that follow.
    std::optional<std::uint64_t> hang_at_run;
    std::optional<std::uint64_t> memory_at_alloc;
  };
  /// Chances per run (`copy`: per copy), drawn from seed, device and number.
  struct Chances {
    std::uint64_t seed = 0;
    double soft = 0;
    double lost = 0;
    double hang = 0;
    double copy = 0;
  };

  FakeFaults() = default;
  FakeFaults(const FakeFaults&) = delete;
  FakeFaults& operator=(const FakeFaults&) = delete;

  void plan(std::size_t device, const Plan& plan) {
    const std::lock_guard lock(mutex_);
    plans_[device] = plan;
  }
  void chances(const Chances& chances) {
    const std::lock_guard lock(mutex_);
    chances_ = chances;
  }
  /// Every batch with this token id in it meets `fault` (soft, lost or hang), on any device; the first `times`.
  void on_token(std::uint32_t id, FakeFault fault, std::uint64_t times = ~std::uint64_t{0}) {
    const std::lock_guard lock(mutex_);
    tokens_.push_back({id, fault, times});
  }

  /// Lets go all that hang now; `for_good`: and all that would hang later.
  void release(bool for_good = false) {
    const std::lock_guard lock(mutex_);
    ++releases_;
    released_ = released_ || for_good;
    moved_.notify_all();
  }
  /// Waits until so many calls hang. False after ten seconds.
  [[nodiscard]] bool wait_hanging(std::size_t count) {
    std::unique_lock lock(mutex_);
    return moved_.wait_for(lock, std::chrono::seconds(10), [&] { return hanging_ >= count; });
  }
  [[nodiscard]] std::size_t hanging() {
    const std::lock_guard lock(mutex_);
    return hanging_;
  }

  /// How many of a kind were met.
  [[nodiscard]] std::uint64_t injected(FakeFault fault) {
    const std::lock_guard lock(mutex_);
    return injected_[static_cast<std::size_t>(fault)];
  }
  /// "soft 3, lost 1, ..."
  [[nodiscard]] std::string summary() {
    std::string text;
    for (std::size_t i = 1; i < kFakeFaultNames.size(); ++i) {
      text += (i > 1 ? ", " : "") + std::string(kFakeFaultNames[i]) + " " + std::to_string(injected(static_cast<FakeFault>(i)));
    }
    return text;
  }

  // ---- what the driver asks

  enum class Start : std::uint8_t { stream, alloc, load };
  [[nodiscard]] bool fails_to_start(std::size_t device, Start what) {
    const std::lock_guard lock(mutex_);
    const Plan& plan = plans_[device];
    const bool fails = what == Start::stream ? plan.no_streams : what == Start::alloc ? plan.no_memory : plan.no_load;
    return fails && count(FakeFault::start);
  }
  [[nodiscard]] bool out_of_memory(std::size_t device, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    return plans_[device].memory_at_alloc == number && count(FakeFault::memory);
  }
  [[nodiscard]] bool copy_fails(std::size_t device, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    return draw(device, number, 0xC0) < chances_.copy && count(FakeFault::copy);
  }
  [[nodiscard]] FakeFault at_run(std::size_t device, std::uint64_t number, std::span<const std::uint32_t> ids) {
    const std::lock_guard lock(mutex_);
    const FakeFault fault = fault_of(device, number, ids);
    if (fault != FakeFault::none) {
      count(fault);
    }
    return fault;
  }
  /// Comes back after release().
  void hang() {
    std::unique_lock lock(mutex_);
    const std::uint64_t before = releases_;
    ++hanging_;
    moved_.notify_all();
    moved_.wait(lock, [&] { return released_ || releases_ != before; });
    --hanging_;
    moved_.notify_all();
  }

 private:
  struct Token {
    std::uint32_t id = 0;
    FakeFault fault = FakeFault::none;
    std::uint64_t times = 0;
  };

  bool count(FakeFault fault) {
    ++injected_[static_cast<std::size_t>(fault)];
    return true;
  }
  [[nodiscard]] double draw(std::size_t device, std::uint64_t number, std::uint64_t salt) const {
    return static_cast<double>(mix(mix(mix(chances_.seed, salt), device), number) >> 11) * 0x1p-53;
  }
  [[nodiscard]] FakeFault fault_of(std::size_t device, std::uint64_t number, std::span<const std::uint32_t> ids) {
    for (Token& token : tokens_) {
      if (token.times > 0 && std::ranges::find(ids, token.id) != ids.end()) {
        --token.times;
        return token.fault;
      }
    }
    const Plan& plan = plans_[device];
    if (plan.lost_at_run && number >= *plan.lost_at_run) {
      return FakeFault::lost;
    }
    if (plan.hang_at_run == number) {
      return FakeFault::hang;
    }
    if (plan.soft_at_run == number || (plan.soft_from_run && number >= *plan.soft_from_run)) {
      return FakeFault::soft;
    }
    const double drawn = draw(device, number, 0xB0);
    if (drawn < chances_.lost) {
      return FakeFault::lost;
    }
    if (drawn < chances_.lost + chances_.hang) {
      return FakeFault::hang;
    }
    return drawn < chances_.lost + chances_.hang + chances_.soft ? FakeFault::soft : FakeFault::none;
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  std::map<std::size_t, Plan> plans_;
  Chances chances_;
  std::vector<Token> tokens_;
  std::array<std::uint64_t, kFakeFaultNames.size()> injected_{};
  std::size_t hanging_ = 0;
  std::uint64_t releases_ = 0;
  bool released_ = false;
};

/// Releases in the end, however the test comes out.
class ReleaseAtEnd {
 public:
  explicit ReleaseAtEnd(FakeFaults& faults) : faults_(faults) {}
  ReleaseAtEnd(const ReleaseAtEnd&) = delete;
  ReleaseAtEnd& operator=(const ReleaseAtEnd&) = delete;
  ~ReleaseAtEnd() { faults_.release(true); }

 private:
  FakeFaults& faults_;
};

}  // namespace kime::test
