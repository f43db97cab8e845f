// Weights on huge pages: from the start where these come fast, else once a run has proved long enough to gain by them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>

#include "kime/backend/cpu/crew.h"

namespace kime::cpu {

using Seconds = std::chrono::duration<double>;

/// Asks for huge pages where memory is first touched from now on, or for none. What a run computes in is worth it at once: it is small, and
/// read and written over and over.
void ask_for_huge_pages(std::byte* memory, std::size_t bytes, bool wanted);

/// What a huge page may take to be touched first, in the mean, to be taken at once: about what 512 pages of 4 KiB take.
inline constexpr Seconds kFastPage{0.0005};

/// What a first touch did.
struct FirstTouch {
  std::size_t pages = 0;  ///< Touched, of 2 MiB.
  Seconds each{0};        ///< In the mean.
};

/// Memory for weights, which its owner is about to fill: touches it in huge pages, `threads` at a time, as long as these take at most
/// `limit` in the mean. Some systems give one in a tenth of a millisecond, less than its small pages cost; others compact memory for it,
/// or have it fetched by a host, for up to six. From the first slow ones on, memory is left as it is, to be touched in small pages.
FirstTouch touch_huge_pages(const Crew& crew, std::size_t threads, std::byte* memory, std::size_t bytes, Seconds limit = kFastPage);

/// A pass over a batch reads all weights, and on pages of 4 KiB pays a walk of page tables for each: float32 products over weights that lie
/// in memory reached 73 to 77 % of the FMA peak so, 87 to 92 % on pages of 2 MiB. Where touch_huge_pages() found these slow, nothing is
/// done until the runs have lost about as much time without them as they will cost, and then by who runs, a little at a time: after each
/// run at most a quarter of what it took. What a page holds never changes. Where the system cannot do it (Linux before 6.1) nothing
/// happens.
class HugePages {
 public:
  /// `at_once`: all after the first run, for benchmarks, which measure what long runs reach.
  explicit HugePages(bool at_once = false) : at_once_(at_once) {}

  /// Memory to be improved: what earlier calls named, and this, in which a huge page takes about `each`. It may be freed while no run is
  /// under way.
  void add(std::byte* memory, std::size_t bytes, Seconds each);
  /// After a run of this length. From any thread.
  void after_run(Seconds run);
  /// Pages that were made, for tests.
  [[nodiscard]] std::size_t made() const { return made_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    std::byte* next = nullptr;  ///< On a boundary of huge pages.
    std::byte* end = nullptr;
  };
  void work(Seconds budget);

  static constexpr std::size_t kRanges = 16;  // more checkpoints than that at a time stay as they are
  bool at_once_;
  std::atomic<bool> pending_{false};
  std::atomic<std::size_t> made_{0};
  std::atomic<double> ran_{0};   ///< Seconds, of all runs together.
  std::atomic<double> cost_{0};  ///< Seconds that all that was named may take.
  std::mutex mutex_;             ///< Of what follows; held by the one that works.
  Range ranges_[kRanges];
  std::size_t count_ = 0;
};

}  // namespace kime::cpu
