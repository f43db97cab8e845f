// Where the limits of this process's control groups stand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kime {

/// The folders of the process's cgroup and of all above it, innermost first, v2 and those of v1's `controller` ("cpu", "memory"), by
/// `root`/proc/self/cgroup under `root`/sys/fs/cgroup. Not all of them need be there: in a container the cgroup that /proc names may not
/// be visible, and the mount's own top then is it.
[[nodiscard]] std::vector<std::string> cgroup_folders(const std::string& root, std::string_view controller);

/// The whole text of a small file, as those of /proc and /sys; none where it cannot be read.
[[nodiscard]] std::optional<std::string> read_small_file(const std::string& path);

/// The positive whole number that `text` is, white space around it aside.
[[nodiscard]] std::optional<long long> parse_positive(std::string_view text);

}  // namespace kime
