#include "kime/backend/cpu/topology.h"

#include <rapidcheck.h>
#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <numeric>
#include <thread>

#include "kime/base/cpu_limits.h"

using kime::cpu::CpuDevicePlan;
using kime::cpu::CpuTopology;
using kime::cpu::kAny;
using kime::cpu::Placement;

namespace {

using Plans = std::vector<CpuDevicePlan>;

CpuTopology machine(const std::vector<std::size_t>& cores) {
  CpuTopology topology;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    topology.nodes.push_back({static_cast<int>(i), cores[i]});
  }
  topology.usable = std::accumulate(cores.begin(), cores.end(), std::size_t{0});
  topology.core_types = {{kAny, topology.usable}};
  return topology;
}

Plans plan(const std::vector<std::size_t>& cores, std::size_t usable, std::size_t virtual_cpus) {
  auto devices = plan_cpu_devices(machine(cores), usable, virtual_cpus);
  REQUIRE(devices);
  return *devices;
}

std::size_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

cpu_set_t affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  return mask;
}

}  // namespace

TEST_CASE("a node is a device with its share of the threads") {
  CHECK(plan({2}, 2, 0) == Plans{{0, 2}});
  CHECK(plan({2}, 1, 0) == Plans{{0, 1}});
  CHECK(plan({2}, 0, 0) == Plans{{0, 1}});
  CHECK(plan({2}, 8, 0) == Plans{{0, 8}});  // --threads may ask for more than there are
  CHECK(plan({32, 32}, 64, 0) == Plans{{0, 32}, {1, 32}});
  CHECK(plan({32, 32}, 5, 0) == Plans{{0, 3}, {1, 2}});
  CHECK(plan({32, 32}, 2, 0) == Plans{{0, 1}, {1, 1}});
  CHECK(plan({32, 32}, 1, 0) == Plans{{0, 1}});
  CHECK(plan({16, 8, 4, 4}, 32, 0) == Plans{{0, 16}, {1, 8}, {2, 4}, {3, 4}});
  CHECK(plan({16, 8, 4, 4}, 16, 0) == Plans{{0, 8}, {1, 4}, {2, 2}, {3, 2}});
  CHECK(plan({16, 8, 4, 4}, 5, 0) == Plans{{0, 2}, {1, 1}, {2, 1}, {3, 1}});
  CHECK(plan({4, 8, 4, 16}, 2, 0) == Plans{{1, 1}, {3, 1}});
  CHECK(plan({100, 1, 1}, 10, 0) == Plans{{0, 8}, {1, 1}, {2, 1}});
}

TEST_CASE("virtual CPUs split the threads evenly, within nodes") {
  CHECK(plan({2}, 2, 1) == Plans{{0, 2}});
  CHECK(plan({2}, 2, 2) == Plans{{0, 1}, {0, 1}});
  CHECK(plan({2}, 2, 3) == Plans{{0, 1}, {0, 1}, {0, 1}});
  CHECK(plan({8}, 8, 3) == Plans{{0, 3}, {0, 3}, {0, 2}});
  CHECK(plan({32, 32}, 64, 1) == Plans{{kAny, 64}});
  CHECK(plan({32, 32}, 64, 2) == Plans{{0, 32}, {1, 32}});
  CHECK(plan({32, 32}, 64, 3) == Plans{{0, 16}, {0, 16}, {1, 32}});
  CHECK(plan({32, 32}, 1, 3) == Plans{{0, 1}, {0, 1}, {0, 1}});
  CHECK(plan({16, 8, 4, 4}, 32, 2) == Plans{{kAny, 16}, {kAny, 16}});
  CHECK(plan({16, 8, 4, 4}, 32, 7) == Plans{{0, 6}, {0, 5}, {0, 5}, {1, 4}, {1, 4}, {2, 4}, {3, 4}});

  const auto refused = plan_cpu_devices(machine({2}), 2, 1025);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind() == kime::ErrorKind::input);
  CHECK(refused.error().text() == "--virtual-cpus 1025: at most 1024 CPU devices");
}

TEST_CASE("any plan uses the threads there are, and no device is without one") {
  CHECK(rc::check("plans", [] {
    const auto cores = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 65)));
    const auto usable = *rc::gen::inRange<std::size_t>(1, 300);
    const auto virtual_cpus = *rc::gen::inRange<std::size_t>(0, 40);
    const auto topology = machine(cores);
    const auto devices = plan_cpu_devices(topology, usable, virtual_cpus);
    RC_ASSERT(static_cast<bool>(devices));
    RC_ASSERT(devices->size() == (virtual_cpus > 0 ? virtual_cpus : std::min(cores.size(), usable)));
    std::size_t threads = 0;
    std::vector<std::size_t> of_node(cores.size());
    for (const auto& device : *devices) {
      RC_ASSERT(device.threads >= 1U);
      threads += device.threads;
      if (device.node != kAny) {
        of_node[static_cast<std::size_t>(device.node)] += device.threads;
      }
    }
    RC_ASSERT(threads == std::max(usable, devices->size()));
    if (virtual_cpus == 0 && usable <= topology.usable) {
      for (std::size_t i = 0; i < cores.size(); ++i) {
        RC_ASSERT(of_node[i] <= cores[i]);
      }
    }
  }));
}

TEST_CASE("streams are placed on their node, and on fast cores first") {
  const Plans two = {{0, 32}, {1, 32}};
  CHECK(place_stream(machine({32, 32}), two, 1, 5, 32) == Placement{1, kAny});
  CHECK(place_stream(machine({32, 32}), Plans{{kAny, 64}}, 0, 5, 64) == Placement{});
  CHECK(place_stream(machine({2}), Plans{{0, 2}}, 0, 1, 2) == Placement{});

  CpuTopology hybrid = machine({12});
  hybrid.core_types = {{1, 4}, {0, 8}};  // the fastest first
  const Plans one = {{0, 12}};
  CHECK(place_stream(hybrid, one, 0, 0, 12) == Placement{kAny, 1});
  CHECK(place_stream(hybrid, one, 0, 3, 12) == Placement{kAny, 1});
  CHECK(place_stream(hybrid, one, 0, 4, 12) == Placement{kAny, 0});
  CHECK(place_stream(hybrid, one, 0, 11, 12) == Placement{kAny, 0});
  CHECK(place_stream(hybrid, one, 0, 12, 13) == Placement{kAny, 1});
  CHECK(place_stream(hybrid, one, 0, 0, 1) == Placement{});  // a stream with helpers
  const Plans split = {{0, 3}, {0, 3}, {0, 7}};
  CHECK(place_stream(hybrid, split, 1, 0, 3) == Placement{kAny, 1});
  CHECK(place_stream(hybrid, split, 1, 1, 3) == Placement{kAny, 0});
  CHECK(place_stream(hybrid, split, 2, 6, 7) == Placement{});  // more threads than cores
}

TEST_CASE("this machine's topology agrees with the process's limits") {
  const auto limits = kime::cpu_limits();
  const CpuTopology topology = kime::cpu::read_topology();
  CHECK(topology.usable == limits.usable());
  REQUIRE_FALSE(topology.nodes.empty());
  REQUIRE_FALSE(topology.core_types.empty());
  std::size_t cores = 0;
  for (const auto& node : topology.nodes) {
    cores += node.cores;
  }
  CHECK(cores == limits.affinity);
  cores = 0;
  for (const auto& type : topology.core_types) {
    cores += type.cores;
  }
  CHECK(cores == limits.affinity);
  CHECK(plan_cpu_devices(topology, topology.usable, 0));
}

TEST_CASE("a placed function runs on its own thread, within the process's CPUs, and leaves no trace") {
  const auto node = kime::cpu::read_topology().nodes.front().id;
  const cpu_set_t before = affinity();
  const std::size_t threads = thread_count();
  for (const Placement& placement : {Placement{}, Placement{node, kAny}}) {
    int runs = 0;
    kime::cpu::run_placed(placement, [&, caller = std::this_thread::get_id()] {
      ++runs;
      CHECK(std::this_thread::get_id() == caller);
      CHECK(thread_count() == threads);
      const cpu_set_t inside = affinity();
      cpu_set_t both;
      CPU_AND(&both, &inside, &before);
      CHECK(CPU_EQUAL(&both, &inside));
    });
    CHECK(runs == 1);
    const cpu_set_t after = affinity();
    CHECK(CPU_EQUAL(&after, &before));
  }
  int runs = 0;
  run_on_node(kime::cpu::read_topology(), node, [&] { ++runs; });
  CHECK(runs == 1);
}
