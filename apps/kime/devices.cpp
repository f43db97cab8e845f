// kime devices
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "fleet_options.h"
#include "kime/base/counted.h"
#include "kime/job/devices.h"

namespace kime::app {

namespace {

struct DevicesCommand {
  DeviceOptions devices;
  bool json = false;
  bool verbose = false;
};

std::string gib(const nlohmann::json& bytes) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  return fmt::format("{:.1f} GiB", bytes.get<double>() / kGib);
}

void print_gpu(const nlohmann::json& device) {
  const auto& cublaslt = device["driver"]["cublaslt"];
  fmt::print("  compute   capability {}, {} multiprocessors{}\n", device["compute_capability"].get<std::string>(),
             device["cores"].get<std::size_t>(),
             device.contains("streams") ? fmt::format(", {} suggested", counted(device["streams"].get<std::size_t>(), "stream")) : "");
  fmt::print("  memory    {}, {}\n", gib(device["memory_bytes"]),
             device.contains("memory_error") ? device["memory_error"].get<std::string>() : gib(device["memory_used_bytes"]) + " in use");
  fmt::print("  bus       PCI {}, {}\n", device["pci_bus_id"].get<std::string>(), device["uuid"].get<std::string>());
  fmt::print("  class     {} (devices of one class give the same bits)\n", device["class"].get<std::string>());
  fmt::print("  library   CUDA driver {}, {}\n", device["driver"]["cuda"].get<std::string>(),
             cublaslt.is_null() ? "no cuBLASLt" : "cuBLASLt " + cublaslt.get<std::string>());
}

void print_cpu(const nlohmann::json& device) {
  const auto& node = device["numa_node"];
  fmt::print("  cores     {}{}, {} suggested\n", device["cores"].get<std::size_t>(),
             node.is_null() ? "" : fmt::format(" on NUMA node {}", node.get<int>()),
             counted(device["streams"].get<std::size_t>(), "stream"));
  fmt::print("  memory    {}, {} in use\n", gib(device["memory_bytes"]), gib(device["memory_used_bytes"]));
  fmt::print("  SIMD      {} (this CPU runs {}; compiled: {})\n", device["simd_target"].get<std::string>(),
             fmt::join(device["simd_targets"].get<std::vector<std::string>>(), ", "),
             fmt::join(device["simd_targets_compiled"].get<std::vector<std::string>>(), ", "));
  fmt::print("  products  bf16 by {}, int8 by {}\n", device["products"]["bf16"].get<std::string>(),
             device["products"]["int8"].get<std::string>());
  fmt::print("  features  {}\n", fmt::join(device["features"].get<std::vector<std::string>>(), " "));
  fmt::print("  class     {} (devices of one class give the same bits)\n", device["class"].get<std::string>());
  fmt::print("  library   oneTBB {}, Highway {}\n", device["driver"]["onetbb"].get<std::string>(),
             device["driver"]["highway"].get<std::string>());
}

void print_debug(const nlohmann::json& device) {
  if (device.contains("debug")) {
    fmt::print("  debug     {}\n", device["debug"].dump());
  }
}

// A device that is there and would not be used; of some only the name is known.
void print_unused(const nlohmann::json& device) {
  const auto bus = device["pci_bus_id"].get<std::string>();
  if (!device.contains("device")) {
    fmt::print("{}  {}{}: left out: {}\n", device["kind"].get<std::string>(), device["name"].get<std::string>(),
               bus.empty() ? "" : fmt::format(" ({})", bus), device["why"].get<std::string>());
    return;
  }
  fmt::print("{}  {}: not used: {}\n", device["device"].get<std::string>(), device["name"].get<std::string>(),
             device["why"].get<std::string>());
  print_gpu(device);
  print_debug(device);
}

void print(const nlohmann::json& document) {
  for (const auto& device : document["devices"]) {
    fmt::print("{}  {}\n", device["device"].get<std::string>(), device["name"].get<std::string>());
    device["kind"] == "cpu" ? print_cpu(device) : print_gpu(device);
    print_debug(device);
  }
  for (const auto& device : document["unused"]) {
    print_unused(device);
  }
  for (const auto& missing : document["missing"]) {
    fmt::print("{}: none: {}\n", missing["kind"].get<std::string>(), missing["why"].get<std::string>());
  }
  if (document.contains("debug")) {
    fmt::print("debug: {}\n", document["debug"].dump());
  }
}

int run(const DevicesCommand& options) {
  auto cpu = options.devices.cpu();
  if (!cpu) {
    return fail(cpu.error().text());
  }
  auto document = describe_devices(*cpu, options.verbose);
  if (!document) {
    return fail(document.error().text());
  }
  if (options.json) {
    fmt::print("{}\n", document->dump(2));
  } else {
    print(*document);
  }
  return kDone;
}

}  // namespace

void add_devices(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("devices", "What would be used: everything that a bug report needs");
  auto options = std::make_shared<DevicesCommand>();
  options->devices.add_layout(*command);
  command->add_flag("--json", options->json, "One JSON document");
  command->add_flag("-v,--verbose", options->verbose, "Debug information too");
  command->footer(
      examples("  kime devices\n"
               "  kime devices --json -v > devices.json     for a bug report\n"
               "  kime devices --virtual-cpus 2 --streams one"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
