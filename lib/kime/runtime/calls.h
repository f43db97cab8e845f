// How often each part of the runtime was used: what a bug report shows, and what the tests hold against the table in README.md.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace kime {

/// The runtime's functions.
inline constexpr std::string_view kCallNames[] = {"initialize",
                                                  "is_initialized",
                                                  "unsafe_cleanup",
                                                  "num_devices",
                                                  "get_device",
                                                  "make_device",
                                                  "get_name",
                                                  "physical_device",
                                                  "to_ordinal",
                                                  "to_subordinal",
                                                  "suggested_num_virtual_devices",
                                                  "new_virtual_device",
                                                  "schedule_task",
                                                  "await",
                                                  "is_idle",
                                                  "all_work",
                                                  "sync",
                                                  "is_done",
                                                  "will_wait_for",
                                                  "alloc_pool",
                                                  "free_pool",
                                                  "memset_zero",
                                                  "alloc_buffer",
                                                  "get_buffer",
                                                  "to_buffer",
                                                  "host_to_buffer",
                                                  "buffer_to_host",
                                                  "get_used_memory",
                                                  "make_context",
                                                  "make_child",
                                                  "parent",
                                                  "finalize",
                                                  "compile",
                                                  "compile_batch",
                                                  "link",
                                                  "link_batch",
                                                  "expected_merge_nodes",
                                                  "hardware_limits",
                                                  "launch",
                                                  "from_host",
                                                  "to_host",
                                                  "init_from_host",
                                                  "init_from_device",
                                                  "device_to_device",
                                                  "static_properties",
                                                  "get_global_debug_info",
                                                  "get_debug_info"};

/// One of them by its name; a name that is not there does not compile.
class Call {
 public:
  consteval Call(std::string_view name) {  // NOLINT(google-explicit-constructor): calls.count("sync")
    const auto* found = std::ranges::find(kCallNames, name);
    if (found == std::end(kCallNames)) {
      throw name;  // which cannot be done at compile time: no such function
    }
    index = static_cast<std::size_t>(found - std::begin(kCallNames));
  }
  consteval Call(const char* name) : Call(std::string_view(name)) {}  // NOLINT(google-explicit-constructor)

  std::size_t index = 0;
};

/// Counters; from any thread.
class CallCounts {
 public:
  void count(Call call) const { counts_[call.index].fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t of(Call call) const { return at(call.index); }
  /// Of kCallNames[index].
  [[nodiscard]] std::uint64_t at(std::size_t index) const { return counts_[index].load(std::memory_order_relaxed); }

 private:
  mutable std::array<std::atomic<std::uint64_t>, std::size(kCallNames)> counts_{};
};

}  // namespace kime
