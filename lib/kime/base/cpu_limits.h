// How many CPUs this process may really use: a container often sees all of a machine's but has a share of their time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kime {

/// What limits a process, each at least 1 CPU.
struct CpuLimits {
  std::size_t affinity = 1;     ///< CPUs in the affinity mask.
  std::optional<double> quota;  ///< CPUs' worth of time by the tightest cgroup quota, where there is one.

  /// Threads that find a CPU: the smaller of both, a part of a CPU counted as one.
  [[nodiscard]] std::size_t usable() const;
};

/// The limits of the calling process.
[[nodiscard]] CpuLimits cpu_limits();

/// The quota of a cgroup v2 `cpu.max` ("150000 100000" is 1.5; "max 100000" is none). Text that means nothing is no quota.
[[nodiscard]] std::optional<double> parse_cpu_max(std::string_view text);
/// The quota of cgroup v1's `cpu.cfs_quota_us` ("-1" is none) and `cpu.cfs_period_us`.
[[nodiscard]] std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);
/// The tightest quota over the process's cgroup and all above it, v2 and v1, from `root`/proc/self/cgroup and `root`/sys/fs/cgroup.
/// In a container, the cgroup that /proc names may not be visible; the mount's own top then is it.
[[nodiscard]] std::optional<double> cgroup_cpu_quota(const std::string& root);

}  // namespace kime
