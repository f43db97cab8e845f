#include "kime/base/cpu_limits.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <vector>

namespace kime {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// The positive number that `text` is, white space around it aside.
std::optional<double> parse_positive(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(value);
}

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (a && b) {
    return std::min(*a, *b);
  }
  return a ? a : b;
}

std::optional<double> quota_at(const std::string& folder) {
  std::optional<double> quota;
  if (const auto max = read_text(folder + "/cpu.max")) {
    quota = parse_cpu_max(*max);
  }
  const auto v1_quota = read_text(folder + "/cpu.cfs_quota_us");
  const auto v1_period = read_text(folder + "/cpu.cfs_period_us");
  if (v1_quota && v1_period) {
    quota = tighter(quota, parse_cfs_quota(*v1_quota, *v1_period));
  }
  return quota;
}

/// The tightest quota of mount + path and of every folder above it, down to the mount itself.
std::optional<double> quota_above(const std::string& mount, std::string_view path) {
  std::optional<double> quota;
  while (!path.empty() && path != "/") {
    quota = tighter(quota, quota_at(mount + std::string(path)));
    path = path.substr(0, path.find_last_of('/'));
  }
  return tighter(quota, quota_at(mount));
}

bool names_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const auto comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") {
      return true;
    }
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
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
  return time && each ? std::optional(*time / *each) : std::nullopt;
}

std::optional<double> cgroup_cpu_quota(const std::string& root) {
  std::optional<double> quota;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1)
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      quota = tighter(quota, quota_above(mount, path));
      quota = tighter(quota, quota_above(mount + "/unified", path));
    } else if (names_cpu(controllers)) {
      quota = tighter(quota, quota_above(std::string(mount).append("/").append(controllers), path));
      quota = tighter(quota, quota_above(mount + "/cpu", path));
    }
  }
  return quota;
}

CpuLimits cpu_limits() {
  return {affinity_count(), cgroup_cpu_quota("")};
}

}  // namespace kime
