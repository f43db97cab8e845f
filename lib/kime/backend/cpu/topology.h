// The machine's CPUs: its NUMA nodes and core types, how they become devices, and where a stream of a device runs.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kime/base/error.h"

namespace kime::cpu {

/// A node or a core type that is not known, or does not matter.
constexpr int kAny = -1;

struct CpuNode {
  int id = kAny;          ///< oneTBB's, which counts the nodes from 0; kAny where it sees no nodes.
  std::size_t cores = 1;  ///< CPUs (hardware threads) of it that this process may use.
};

/// Cores of one kind, as the efficient and the fast ones of a hybrid CPU.
struct CpuCoreType {
  int id = kAny;
  std::size_t cores = 1;
};

/// What this process may use of the machine.
struct CpuTopology {
  std::vector<CpuNode> nodes;           ///< Those that have a CPU for this process; at least one.
  std::vector<CpuCoreType> core_types;  ///< The fastest first; one where all are alike.
  std::size_t usable = 1;               ///< Threads that find a CPU, by affinity mask and cgroup quota.
};

/// The topology as oneTBB and cpu_limits() tell it. The first call loads oneTBB's view of the machine, which stays as the affinity mask
/// was then: so it is called when devices are asked for, not before.
[[nodiscard]] CpuTopology read_topology();

/// A CPU device: threads of one node.
struct CpuDevicePlan {
  int node = kAny;  ///< kAny: its threads run on all nodes. Devices of one node share weights.
  std::size_t threads = 1;
  bool operator==(const CpuDevicePlan&) const = default;
};

constexpr std::size_t kMostVirtualCpus = 1024;

/// Spreads `usable` threads over devices, in the order of the nodes. `virtual_cpus` 0: one device a node, with its share of the threads by
/// the node's cores, at least one; of fewer threads than nodes, one each for the largest nodes. Else that many devices, the threads split
/// as evenly as their nodes allow, none with less than one (so that several exist on any machine); fewer devices than nodes belong to no
/// node, and their threads run anywhere. Errors: `input` for more than kMostVirtualCpus.
[[nodiscard]] Result<std::vector<CpuDevicePlan>> plan_cpu_devices(const CpuTopology& topology, std::size_t usable,
                                                                  std::size_t virtual_cpus);

/// Where a stream's thread runs.
struct Placement {
  int node = kAny;
  int core_type = kAny;
  bool operator==(const Placement&) const = default;
};

/// The place of stream `stream` of the `streams` of `devices[device]`. Where there is one node it needs no binding to it. The core types
/// of a hybrid CPU (which is one node) count only where the device has a stream for each of its threads: else a stream computes with
/// helpers, and must not lead them all to a few cores. The fast cores then go first, to the first streams of the first devices.
[[nodiscard]] Placement place_stream(const CpuTopology& topology, std::span<const CpuDevicePlan> devices, std::size_t device,
                                     std::size_t stream, std::size_t streams);

/// Runs fn() on the calling thread, kept to its place by oneTBB until fn returns; threads that fn starts inherit it. A placement of
/// nothing touches no oneTBB. No thread is made.
void run_placed(const Placement& placement, const std::function<void()>& fn);
/// run_placed() on a node; where there is only one, or for kAny, anywhere.
void run_on_node(const CpuTopology& topology, int node, const std::function<void()>& fn);

}  // namespace kime::cpu
