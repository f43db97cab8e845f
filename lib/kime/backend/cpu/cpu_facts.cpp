#include "kime/backend/cpu/cpu_facts.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kime/base/cgroup.h"

namespace kime::cpu {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::array<std::string_view, 13> kFeatures = {
    "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8", "asimd", "bf16", "i8mm", "sve"};

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

/// The value of the first "name : value" line.
std::string_view field(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const auto colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == name) {
      return trimmed(line.substr(colon + 1));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

bool has_word(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (text.substr(0, end) == word) {
      return true;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

std::optional<std::uint64_t> scaled(std::string_view digits, std::uint64_t unit) {
  const auto number = parse_positive(digits);
  if (!number || static_cast<std::uint64_t>(*number) > std::numeric_limits<std::uint64_t>::max() / unit) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*number) * unit;
}

void read_caches(const std::string& root, CpuFacts& facts) {
  for (int index = 0;; ++index) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    const auto level = read_small_file(folder + "/level");
    const auto type = read_small_file(folder + "/type");
    const auto size = read_small_file(folder + "/size");
    if (!level || !type || !size) {
      return;
    }
    if (trimmed(*type) == "Instruction") {
      continue;
    }
    const std::uint64_t bytes = parse_cache_size(*size).value_or(0);
    switch (parse_positive(*level).value_or(0)) {
      case 1:
        facts.l1d = bytes;
        break;
      case 2:
        facts.l2 = bytes;
        break;
      case 3:
        facts.l3 = bytes;
        break;
      default:
        break;
    }
  }
}

// A field of a meminfo: "MemTotal:  24683656 kB", before which a node's has "Node 0 ".
std::optional<std::uint64_t> meminfo_bytes(std::string_view meminfo, std::string_view name) {
  const auto begin = meminfo.find(name);
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view value = meminfo.substr(begin + name.size());
  value = trimmed(value.substr(0, value.find('\n')));
  if (!value.ends_with("kB")) {
    return std::nullopt;
  }
  value.remove_suffix(2);
  return scaled(value, 1024);
}

// The machine's meminfo, and after it the node's.
std::vector<std::string> meminfo_files(const std::string& root, int node) {
  std::vector<std::string> files = {root + "/proc/meminfo"};
  if (node >= 0) {
    files.push_back(root + "/sys/devices/system/node/node" + std::to_string(node) + "/meminfo");
  }
  return files;
}

}  // namespace

std::string cpu_model(std::string_view cpuinfo) {
  if (const auto name = field(cpuinfo, "model name"); !name.empty()) {
    return std::string(name);
  }
  const auto implementer = field(cpuinfo, "CPU implementer");
  const auto part = field(cpuinfo, "CPU part");
  if (implementer.empty() || part.empty()) {
    return {};
  }
  return "implementer " + std::string(implementer) + ", part " + std::string(part);
}

std::vector<std::string> cpu_features(std::string_view cpuinfo) {
  const std::string_view x86 = field(cpuinfo, "flags");
  const std::string_view present = x86.empty() ? field(cpuinfo, "Features") : x86;
  std::vector<std::string> features;
  for (const std::string_view feature : kFeatures) {
    if (has_word(present, feature)) {
      features.emplace_back(feature);
    }
  }
  return features;
}

std::optional<std::uint64_t> memory_total(std::string_view meminfo) {
  return meminfo_bytes(meminfo, "MemTotal:");
}

std::optional<std::uint64_t> memory_used(std::string_view meminfo) {
  const auto total = memory_total(meminfo);
  const auto available = meminfo_bytes(meminfo, "MemAvailable:");
  const auto left = available ? available : meminfo_bytes(meminfo, "MemFree:");  // a node's has no MemAvailable
  return total && left && *left <= *total ? std::optional(*total - *left) : std::nullopt;
}

std::optional<std::uint64_t> cgroup_memory_limit(const std::string& root) {
  std::optional<std::uint64_t> limit;
  for (const std::string& folder : cgroup_folders(root, "memory")) {
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
      const auto text = read_small_file(folder + file);
      const auto bytes = text ? scaled(*text, 1) : std::nullopt;
      if (bytes) {
        limit = std::min(limit.value_or(*bytes), *bytes);
      }
    }
  }
  return limit;
}

std::optional<std::uint64_t> parse_cache_size(std::string_view text) {
  text = trimmed(text);
  std::uint64_t unit = 1;
  if (text.ends_with('K')) {
    unit = std::uint64_t{1} << 10;
  } else if (text.ends_with('M')) {
    unit = std::uint64_t{1} << 20;
  }
  text.remove_suffix(unit > 1 ? 1 : 0);
  return scaled(text, unit);
}

CpuFacts read_cpu_facts(const std::string& root) {
  CpuFacts facts;
  if (const auto cpuinfo = read_small_file(root + "/proc/cpuinfo")) {
    facts.model = cpu_model(*cpuinfo);
    facts.features = cpu_features(*cpuinfo);
  }
  read_caches(root, facts);
  return facts;
}

std::uint64_t node_memory_used(const std::string& root, int node) {
  std::uint64_t used = 0;
  for (const std::string& file : meminfo_files(root, node)) {  // the node's, where it can be read, is the last
    const auto meminfo = read_small_file(file);
    used = meminfo ? memory_used(*meminfo).value_or(used) : used;
  }
  return used;
}

std::uint64_t node_memory_bytes(const std::string& root, int node) {
  std::vector<std::optional<std::uint64_t>> bounds = {cgroup_memory_limit(root)};
  for (const std::string& file : meminfo_files(root, node)) {
    const auto meminfo = read_small_file(file);
    bounds.push_back(meminfo ? memory_total(*meminfo) : std::nullopt);
  }
  std::uint64_t bytes = 0;
  for (const auto& bound : bounds) {
    if (bound) {
      bytes = bytes == 0 ? *bound : std::min(bytes, *bound);
    }
  }
  return bytes;
}

}  // namespace kime::cpu
