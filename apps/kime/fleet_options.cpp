#include "fleet_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kime::app {

void DeviceOptions::add_layout(CLI::App& command) {
  command
      .add_option("--streams", streams, "Streams of each device: one, overlap (two), cores (one a core; the default on CPUs), or a number")
      ->type_name("HOW");
  threads.add(command);
  command.add_option("--virtual-cpus", virtual_cpus, "Split the CPU's threads into so many devices (default: one a NUMA node)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
}

void DeviceOptions::add(CLI::App& command) {
  command.add_option("--devices", devices, "Devices to use: all (default), cpu, or a list like cpu:0,cpu:1; `kime devices` shows them")
      ->type_name("LIST");
  add_layout(command);
  command.add_option("--device-timeout", timeout, "Give a device up when a batch takes longer (default: never)")
      ->check(CLI::Range(0.001, 1e6))
      ->type_name("S");
  command.add_flag("--reproducible", reproducible,
                   "Only devices of one class, so that bits never differ from run to run (CPUs are one class)");
  command.add_option("--cache", cache, "Keep the weights as the CPU reads them in this folder, and take them from there the next time")
      ->check([](const std::string& folder) { return std::string(folder.empty() ? "the folder's name is empty" : ""); }, "")
      ->type_name("DIR");
}

namespace {

// The ordinal that one name of the list stands for; nothing for all of them.
Result<std::optional<std::size_t>> ordinal_of(std::string_view name) {
  if (name == "all" || name == "cpu") {
    return std::optional<std::size_t>();
  }
  if (name.empty()) {
    return Error(ErrorKind::input, "--devices: a name of the list is empty");
  }
  if (name == "cuda" || name.starts_with("cuda:")) {
    return Error(ErrorKind::input, fmt::format("--devices {}: this version does not score on CUDA devices yet", name));
  }
  std::size_t ordinal = 0;
  if (constexpr std::string_view kPrefix = "cpu:"; name.starts_with(kPrefix)) {
    name.remove_prefix(kPrefix.size());
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), ordinal);
    if (error == std::errc() && end == name.data() + name.size()) {
      return std::optional(ordinal);
    }
    return Error(ErrorKind::input, fmt::format("--devices cpu:{}: a device is named like cpu:0", name));
  }
  return Error(ErrorKind::input, fmt::format("--devices '{}': there are all, cpu, and names like cpu:0", name));
}

}  // namespace

Result<std::vector<std::size_t>> choose_devices(std::string_view list) {
  if (list.empty()) {
    return Error(ErrorKind::input, "--devices: the list is empty");
  }
  std::vector<std::size_t> ordinals;
  bool all = false;
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto comma = std::min(list.find(',', begin), list.size());
    auto ordinal = ordinal_of(list.substr(begin, comma - begin));
    if (!ordinal) {
      return std::move(ordinal).error();
    }
    if (!*ordinal) {
      all = true;
    } else if (std::ranges::find(ordinals, **ordinal) == ordinals.end()) {
      ordinals.push_back(**ordinal);
    } else {
      return Error(ErrorKind::input, fmt::format("--devices: cpu:{} stands twice", **ordinal));
    }
    begin = comma + 1;
  }
  if (all) {
    ordinals.clear();
  }
  return ordinals;
}

Result<CpuFleetOptions> DeviceOptions::cpu() const {
  CpuFleetOptions cpu;
  cpu.threads = threads.given;
  cpu.virtual_cpus = virtual_cpus;
  if (streams) {
    auto strategy = parse_streams(*streams);
    if (!strategy) {
      return std::move(strategy).error();
    }
    cpu.streams = *strategy;
  }
  return cpu;
}

std::shared_ptr<cpu::WeightCache> DeviceOptions::weight_cache(const std::function<void(const std::string&)>& notice) const {
  return cache.empty() ? nullptr : std::make_shared<cpu::WeightCache>(cache, notice);
}

Result<std::unique_ptr<Fleet>> make_fleet(const DeviceOptions& options, std::span<const ModelToLoad> models, const StageBuckets& stage,
                                          FleetOptions fleet, std::shared_ptr<cpu::WeightCache> cache,
                                          std::shared_ptr<cpu::Profile> profile) {
  auto ordinals = choose_devices(options.devices);
  if (!ordinals) {
    return std::move(ordinals).error();
  }
  auto cpu = options.cpu();
  if (!cpu) {
    return std::move(cpu).error();
  }
  cpu->profile = std::move(profile);
  cpu->cache = std::move(cache);
  fleet.ordinals = *std::move(ordinals);
  fleet.reproducible = options.reproducible;
  fleet.timeout = std::chrono::duration<double>(options.timeout);
  return make_cpu_fleet(*cpu, models, stage, std::move(fleet));
}

}  // namespace kime::app
