// How often each part of the runtime was used: what a bug report shows, and what the tests hold against the table in README.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kime {

#define KIME_RUNTIME_CALLS(X)                                                                                                              \
  X(initialize)                                                                                                                            \
  X(is_initialized)                                                                                                                        \
  X(unsafe_cleanup)                                                                                                                        \
  X(num_devices)                                                                                                                           \
  X(get_device)                                                                                                                            \
  X(make_device) X(get_name) X(physical_device) X(to_ordinal) X(to_subordinal) X(suggested_num_virtual_devices) X(new_virtual_device)      \
      X(schedule_task) X(await) X(is_idle) X(all_work) X(sync) X(is_done) X(will_wait_for) X(alloc_pool) X(free_pool) X(memset_zero)       \
          X(alloc_buffer) X(get_buffer) X(to_buffer) X(host_to_buffer) X(buffer_to_host) X(get_used_memory) X(make_context) X(make_child)  \
              X(parent) X(finalize) X(compile) X(compile_batch) X(link) X(link_batch) X(expected_merge_nodes) X(hardware_limits) X(launch) \
                  X(from_host) X(to_host) X(init_from_host) X(init_from_device) X(device_to_device) X(static_properties)                   \
                      X(get_global_debug_info) X(get_debug_info)

/// The runtime's functions by name.
enum class Call : std::uint8_t {
#define KIME_CALL(name) name,
  KIME_RUNTIME_CALLS(KIME_CALL)
#undef KIME_CALL
};

inline constexpr std::string_view kCallNames[] = {
#define KIME_CALL(name) #name,
    KIME_RUNTIME_CALLS(KIME_CALL)
#undef KIME_CALL
};

/// Counters; from any thread.
class CallCounts {
 public:
  void count(Call call) const { counts_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t of(Call call) const { return counts_[static_cast<std::size_t>(call)].load(std::memory_order_relaxed); }

 private:
  mutable std::array<std::atomic<std::uint64_t>, std::size(kCallNames)> counts_{};
};

}  // namespace kime
