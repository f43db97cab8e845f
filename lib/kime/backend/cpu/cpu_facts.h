// What a bug report needs to know of a machine's CPUs and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kime::cpu {

struct CpuFacts {
  std::string model;                  ///< Empty where the system does not say.
  std::vector<std::string> features;  ///< Of the instruction sets that matter here, those present, by the kernel's names.
  /// Bytes of the caches that the first CPU sees, of each level and for data; 0: not known.
  std::uint64_t l1d = 0;
  std::uint64_t l2 = 0;
  std::uint64_t l3 = 0;
};

/// The facts from `root`/proc and `root`/sys; `root` is empty but in tests, here and below.
[[nodiscard]] CpuFacts read_cpu_facts(const std::string& root);
/// Bytes of memory of NUMA node `node` (-1: of the machine) that the process may use: no more than its cgroup's limit. 0: not known.
[[nodiscard]] std::uint64_t node_memory_bytes(const std::string& root, int node);

/// Bytes of it that are in use, by anybody. 0: not known.
[[nodiscard]] std::uint64_t node_memory_used(const std::string& root, int node);

/// The model in a /proc/cpuinfo: "model name", or the implementer and part numbers that ARM kernels give.
[[nodiscard]] std::string cpu_model(std::string_view cpuinfo);
/// The features, of those that matter, that the first CPU of a /proc/cpuinfo has.
[[nodiscard]] std::vector<std::string> cpu_features(std::string_view cpuinfo);
/// The MemTotal of a /proc/meminfo or of a node's meminfo, in bytes.
[[nodiscard]] std::optional<std::uint64_t> memory_total(std::string_view meminfo);
/// What of it is in use: all but MemAvailable, or but MemFree where that is missing.
[[nodiscard]] std::optional<std::uint64_t> memory_used(std::string_view meminfo);
/// The tightest memory limit over the process's cgroup and all above it, v2 and v1, in bytes. v1 says "none" by a number past any memory.
[[nodiscard]] std::optional<std::uint64_t> cgroup_memory_limit(const std::string& root);
/// A cache's size as /sys has it: "48K", "2M", "512".
[[nodiscard]] std::optional<std::uint64_t> parse_cache_size(std::string_view text);

}  // namespace kime::cpu
