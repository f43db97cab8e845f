#include "kime/base/cpu_limits.h"

#include <sched.h>

#include <algorithm>
#include <cmath>

#include "kime/base/cgroup.h"

namespace kime {
namespace {

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (a && b) {
    return std::min(*a, *b);
  }
  return a ? a : b;
}

std::optional<double> quota_at(const std::string& folder) {
  std::optional<double> quota;
  if (const auto max = read_small_file(folder + "/cpu.max")) {
    quota = parse_cpu_max(*max);
  }
  const auto v1_quota = read_small_file(folder + "/cpu.cfs_quota_us");
  const auto v1_period = read_small_file(folder + "/cpu.cfs_period_us");
  if (v1_quota && v1_period) {
    quota = tighter(quota, parse_cfs_quota(*v1_quota, *v1_period));
  }
  return quota;
}

std::size_t affinity_count() {
  // The kernel refuses a mask that is too small for the CPUs it could have, so that the size is found by trying.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) {
      break;
    }
    const std::size_t size = CPU_ALLOC_SIZE(cpus);
    const bool known = sched_getaffinity(0, size, set) == 0;
    const int count = known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (known) {
      return static_cast<std::size_t>(std::max(count, 1));
    }
  }
  return 1;
}

}  // namespace

std::size_t CpuLimits::usable() const {
  if (!quota || *quota >= static_cast<double>(affinity)) {
    return affinity;
  }
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(*quota)));
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto space = text.find(' ');
  return space == std::string_view::npos ? std::nullopt : parse_cfs_quota(text.substr(0, space), text.substr(space));
}

std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period) {
  const auto time = parse_positive(quota);
  const auto each = parse_positive(period);
  return time && each ? std::optional(static_cast<double>(*time) / static_cast<double>(*each)) : std::nullopt;
}

std::optional<double> cgroup_cpu_quota(const std::string& root) {
  std::optional<double> quota;
  for (const std::string& folder : cgroup_folders(root, "cpu")) {
    quota = tighter(quota, quota_at(folder));
  }
  return quota;
}

CpuLimits cpu_limits() {
  return {affinity_count(), cgroup_cpu_quota("")};
}

}  // namespace kime
