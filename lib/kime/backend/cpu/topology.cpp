// Core types are a preview in Debian's oneTBB: declared only where this is defined, in its library always.
#define TBB_PREVIEW_TASK_ARENA_CONSTRAINTS_EXTENSION 1

#include "kime/backend/cpu/topology.h"

#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <string>

#include "kime/base/cpu_limits.h"

namespace kime::cpu {
namespace {

tbb::task_arena::constraints constraints(int node, int core_type) {
  return tbb::task_arena::constraints{}.set_numa_id(node).set_core_type(core_type);
}

std::size_t concurrency(int node, int core_type) {
  return static_cast<std::size_t>(std::max(0, tbb::info::default_concurrency(constraints(node, core_type))));
}

// oneTBB loads its view of the machine in a way (RTLD_DEEPBIND) at which sanitizers end the process: under them it is not asked, and the
// machine is one node.
#ifdef KIME_SANITIZED
constexpr bool kAsks = false;
#else
constexpr bool kAsks = true;
#endif

std::vector<int> known_nodes() {
  return kAsks ? tbb::info::numa_nodes() : std::vector<int>();
}

std::vector<int> known_core_types() {  // the slowest first
  return kAsks ? tbb::info::core_types() : std::vector<int>();
}

/// `threads`, at least one for each node, over the nodes by their cores: one each, of the others the whole shares, and what is then left
/// where most is lacking.
std::vector<std::size_t> share_threads(std::span<const CpuNode> nodes, std::size_t threads) {
  std::size_t cores = 0;
  for (const CpuNode& node : nodes) {
    cores += node.cores;
  }
  std::vector<std::size_t> shares;
  std::size_t left = threads;
  for (const CpuNode& node : nodes) {
    shares.push_back(1 + (threads - nodes.size()) * node.cores / cores);
    left -= shares.back();
  }
  for (; left > 0; --left) {
    // threads * node.cores / cores - share, times cores so that nothing is rounded.
    const auto lacks = [&](std::size_t i) {
      return static_cast<double>(threads) * static_cast<double>(nodes[i].cores) -
             static_cast<double>(shares[i]) * static_cast<double>(cores);
    };
    std::size_t neediest = 0;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      neediest = lacks(i) > lacks(neediest) ? i : neediest;
    }
    ++shares[neediest];
  }
  return shares;
}

/// `threads` over `parts`, as evenly as they go, at least one each.
void append_even(int node, std::size_t threads, std::size_t parts, std::vector<CpuDevicePlan>& out) {
  for (std::size_t i = 0; i < parts; ++i) {
    out.push_back({node, std::max<std::size_t>(1, threads / parts + (i < threads % parts ? 1 : 0))});
  }
}

}  // namespace

CpuTopology read_topology() {
  CpuTopology topology;
  const CpuLimits limits = cpu_limits();
  topology.usable = limits.usable();
  for (const int id : known_nodes()) {
    if (const auto cores = concurrency(id, kAny)) {
      topology.nodes.push_back({id, cores});
    }
  }
  if (topology.nodes.empty()) {
    topology.nodes.push_back({kAny, limits.affinity});
  }
  for (const int id : known_core_types()) {
    if (const auto cores = concurrency(kAny, id)) {
      topology.core_types.insert(topology.core_types.begin(), {id, cores});
    }
  }
  if (topology.core_types.empty()) {
    topology.core_types.push_back({kAny, limits.affinity});
  }
  return topology;
}

Result<std::vector<CpuDevicePlan>> plan_cpu_devices(const CpuTopology& topology, std::size_t usable, std::size_t virtual_cpus) {
  if (virtual_cpus > kMostVirtualCpus) {
    return Error(ErrorKind::input,
                 "--virtual-cpus " + std::to_string(virtual_cpus) + ": at most " + std::to_string(kMostVirtualCpus) + " CPU devices");
  }
  usable = std::max<std::size_t>(usable, 1);
  std::vector<CpuNode> nodes = topology.nodes;
  if (usable < nodes.size()) {
    std::stable_sort(nodes.begin(), nodes.end(), [](const CpuNode& a, const CpuNode& b) { return a.cores > b.cores; });
    nodes.resize(usable);
    std::sort(nodes.begin(), nodes.end(), [](const CpuNode& a, const CpuNode& b) { return a.id < b.id; });
  }
  std::vector<CpuDevicePlan> devices;
  if (virtual_cpus > 0 && virtual_cpus < nodes.size()) {
    append_even(kAny, usable, virtual_cpus, devices);
    return devices;
  }
  const auto threads = share_threads(nodes, usable);
  // One device a node, and each one more where the devices have the most threads.
  std::vector<std::size_t> parts(nodes.size(), 1);
  for (std::size_t count = nodes.size(); count < virtual_cpus; ++count) {
    std::size_t widest = 0;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      widest = threads[i] * parts[widest] > threads[widest] * parts[i] ? i : widest;
    }
    ++parts[widest];
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    append_even(nodes[i].id, threads[i], parts[i], devices);
  }
  return devices;
}

Placement place_stream(const CpuTopology& topology, std::span<const CpuDevicePlan> devices, std::size_t device, std::size_t stream,
                       std::size_t streams) {
  const CpuDevicePlan& plan = devices[device];
  if (topology.nodes.size() > 1) {
    return {plan.node, kAny};
  }
  if (topology.core_types.size() > 1 && streams >= plan.threads) {
    std::size_t core = stream % plan.threads;  // counted from the fastest
    for (const CpuDevicePlan& before : devices.first(device)) {
      core += before.threads;
    }
    for (const CpuCoreType& type : topology.core_types) {
      if (core < type.cores) {
        return {kAny, type.id};
      }
      core -= type.cores;
    }
  }
  return {};
}

void run_placed(const Placement& placement, const std::function<void()>& fn) {
  if (placement == Placement{}) {
    fn();
    return;
  }
  tbb::task_arena arena(constraints(placement.node, placement.core_type).set_max_concurrency(1));
  arena.execute([&] { fn(); });
}

void run_on_node(const CpuTopology& topology, int node, const std::function<void()>& fn) {
  run_placed({topology.nodes.size() > 1 ? node : kAny, kAny}, fn);
}

}  // namespace kime::cpu
