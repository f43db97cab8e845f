#include "fleet_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kime/graph/builder.h"
#include "kime/job/mixed_fleet.h"

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
  command
      .add_option("--devices", devices, "Devices to use: all (default), cpu, cuda, or a list like cpu:0,cuda:1; `kime devices` shows them")
      ->type_name("LIST");
  add_layout(command);
  command.add_option("--device-timeout", timeout, "Give a device up when a batch takes longer (default: never)")
      ->check(CLI::Range(0.001, 1e6))
      ->type_name("S");
  command.add_flag("--reproducible", reproducible,
                   "Only devices of one class, the fastest, so that bits never differ from run to run (CPUs are one class, GPUs of one "
                   "model another)");
  command
      .add_option("--cache", cache,
                  "Keep the weights as the CPU reads them in this folder, with what was verified of cuBLASLt, and take both from there the "
                  "next time")
      ->check([](const std::string& folder) { return std::string(folder.empty() ? "the folder's name is empty" : ""); }, "")
      ->type_name("DIR");
}

namespace {

// A kind's devices, by the names that stand in the list.
struct NamesOfKind {
  std::string_view name;
  std::optional<std::vector<std::size_t>>& ordinals;
  bool all = false;

  // Adds what `word` names, if it is of this kind.
  Result<bool> take(std::string_view word) {
    if (word == name) {
      all = true;
      ordinals.emplace();
      return true;
    }
    if (!word.starts_with(name) || word[name.size()] != ':') {
      return false;
    }
    const auto number = word.substr(name.size() + 1);
    std::size_t ordinal = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
    if (error != std::errc() || end != number.data() + number.size()) {
      return Error(ErrorKind::input, fmt::format("--devices {}: a device is named like {}:0", word, name));
    }
    if (!ordinals) {
      ordinals.emplace();
    }
    if (std::ranges::find(*ordinals, ordinal) != ordinals->end()) {
      return Error(ErrorKind::input, fmt::format("--devices: {}:{} stands twice", name, ordinal));
    }
    ordinals->push_back(ordinal);
    return true;
  }
};

}  // namespace

Result<DeviceChoice> choose_devices(std::string_view list) {
  if (list.empty()) {
    return Error(ErrorKind::input, "--devices: the list is empty");
  }
  DeviceChoice choice;
  NamesOfKind kinds[] = {{"cpu", choice.cpu}, {"cuda", choice.cuda}};
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto comma = std::min(list.find(',', begin), list.size());
    const auto word = list.substr(begin, comma - begin);
    begin = comma + 1;
    if (word.empty()) {
      return Error(ErrorKind::input, "--devices: a name of the list is empty");
    }
    bool known = word == "all";
    choice.named = choice.named && !known;
    for (auto& kind : kinds) {
      auto taken = kind.take(word);
      if (!taken) {
        return std::move(taken).error();
      }
      known = known || *taken;
    }
    if (!known) {
      return Error(ErrorKind::input, fmt::format("--devices '{}': there are all, cpu, cuda, and names like cpu:0", word));
    }
  }
  for (auto& kind : kinds) {
    if (kind.all || !choice.named) {
      kind.ordinals.emplace();
    }
  }
  return choice;
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

namespace {

// The checkpoints in what a kind of device computes in, and in what takes its place where that is too narrow.
std::vector<ModelToLoad> models_in(Precision precision, std::optional<Precision> wider, std::span<const ModelSource> sources) {
  std::vector<ModelToLoad> models;
  for (const ModelSource& source : sources) {
    models.push_back({.tensors = source.tensors,
                      .graph = std::make_shared<const Graph>(build_graph(*source.config, precision)),
                      .vocab = source.config->vocab,
                      .types = ModelConfig::types});
    if (wider) {
      models.back().wider = std::make_shared<const Graph>(build_graph(*source.config, *wider));
    }
  }
  return models;
}

}  // namespace

Result<std::unique_ptr<Fleet>> make_fleet(const DeviceOptions& options, const PrecisionOption& precision,
                                          std::span<const ModelSource> models, const StageBuckets& stage, FleetOptions fleet,
                                          std::shared_ptr<cpu::WeightCache> cache, std::shared_ptr<cpu::Profile> profile) {
  auto choice = choose_devices(options.devices);
  if (!choice) {
    return std::move(choice).error();
  }
  auto cpu = options.cpu();
  if (!cpu) {
    return std::move(cpu).error();
  }
  cpu->profile = std::move(profile);
  cpu->cache = std::move(cache);
  fleet.timeout = std::chrono::duration<double>(options.timeout);
  std::vector<WantedKind> kinds;
  const auto want = [&](const std::optional<std::vector<std::size_t>>& ordinals, const Result<Precision>& in, const auto& make) {
    if (ordinals) {
      fleet.ordinals = *ordinals;
      fleet.precision = in ? *in : Precision::f32;
      kinds.push_back({.fleet = make(), .named = choice->named, .refused = in ? std::nullopt : std::optional(in.error())});
    }
  };
  want(choice->cpu, precision.cpu(), [&] { return make_cpu_fleet(*cpu, models_in(fleet.precision, {}, models), stage, fleet); });
  want(choice->cuda, precision.cuda(), [&] {
    const auto wider = precision.is_auto() ? std::optional(Precision::bf16) : std::nullopt;
    return make_cuda_fleet({cpu->streams, options.cache}, models_in(fleet.precision, wider, models), stage, fleet);
  });
  if (choice->cuda) {
    kinds.back().absent = [] { return !cuda_driver_is_there(); };
  }
  return start_fleet(std::move(kinds), options.reproducible, fleet.notice);
}

}  // namespace kime::app
