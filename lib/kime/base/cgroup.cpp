#include "kime/base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace kime {
namespace {

/// Appends mount + path and every folder above it, down to the mount itself.
void append_upwards(const std::string& mount, std::string_view path, std::vector<std::string>& folders) {
  while (!path.empty() && path != "/") {
    folders.push_back(mount + std::string(path));
    path = path.substr(0, path.find_last_of('/'));
  }
  folders.push_back(mount);
}

/// Whether `controller` is one of the comma-separated `controllers`.
bool names(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const auto comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == controller) {
      return true;
    }
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::vector<std::string> cgroup_folders(const std::string& root, std::string_view controller) {
  std::vector<std::string> folders;
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1)
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      append_upwards(mount, path, folders);
      append_upwards(mount + "/unified", path, folders);
    } else if (names(controllers, controller)) {
      append_upwards(std::string(mount).append("/").append(controllers), path, folders);
      append_upwards(std::string(mount).append("/").append(controller), path, folders);
    }
  }
  return folders;
}

std::optional<std::string> read_small_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<long long> parse_positive(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) {
    return std::nullopt;
  }
  return value;
}

}  // namespace kime
