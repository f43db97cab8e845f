#include "kime/backend/cpu/cpu_driver.h"

#include <fmt/format.h>
#include <oneapi/tbb/version.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <utility>

#include "kime/backend/cpu/cpu_facts.h"
#include "kime/backend/cpu/peak.h"
#include "kime/base/cpu_limits.h"
#include "kime/runtime/io_layout.h"

namespace kime {

namespace {

std::byte* address(const Place<Pages>& place) {
  return place.slab->data() + place.offset;
}

// The batch of so many tokens, sequences and markers that lies in an inputs buffer made for `bucket`.
Batch batch_at(const std::byte* inputs, const Bucket& bucket, const Extent& counts) {
  const BatchLayout layout(bucket);
  const auto words = [&](std::size_t offset, std::size_t count) {
    return std::span(reinterpret_cast<const std::uint32_t*>(inputs + offset), count);
  };
  return {words(layout.ids, counts.tokens), words(layout.cu, counts.seqs + 1), words(layout.markers, counts.markers),
          words(layout.mcu, counts.seqs + 1), std::span(reinterpret_cast<const std::uint8_t*>(inputs + layout.qtype), counts.seqs)};
}

}  // namespace

CpuDriver::CpuDriver(Config config, cpu::CpuTopology topology, std::vector<cpu::CpuDevicePlan> plans)
    : config_(std::move(config)), topology_(std::move(topology)), plans_(std::move(plans)), backends_(plans_.size()) {
}

Result<std::unique_ptr<CpuDriver>> CpuDriver::open(const Config& config) {
  auto topology = cpu::read_topology();
  auto plans = cpu::plan_cpu_devices(topology, config.threads == 0 ? topology.usable : config.threads, config.virtual_cpus);
  if (!plans) {
    return std::move(plans).error();
  }
  return std::unique_ptr<CpuDriver>(new CpuDriver(config, std::move(topology), *std::move(plans)));
}

DeviceProperties CpuDriver::properties(std::size_t ordinal) const {
  const auto& plan = plans_[ordinal];
  const auto facts = cpu::read_cpu_facts("");
  DeviceProperties known;
  known.kind = "cpu";
  known.bits_class = "cpu";
  known.name = facts.model;
  known.cores = plan.threads;
  known.speed_hint = static_cast<double>(plan.threads);
  if (plan.node != cpu::kAny) {
    known.node = plan.node;
  }
  known.memory_bytes = cpu::node_memory_bytes("", plan.node);
  known.memory_used_bytes = cpu::node_memory_used("", plan.node);
  known.memory_modes = "one kind of memory: modes are ignored";
  known.facts = {{"simd_target", cpu::target_in_use()},
                 {"simd_targets", cpu::runnable_targets()},
                 {"simd_targets_compiled", cpu::compiled_targets()},
                 {"products",
                  {{"f32", cpu::products_by(Precision::f32)},
                   {"bf16", cpu::products_by(Precision::bf16)},
                   {"int8", cpu::products_by(Precision::int8)}}},
                 {"features", facts.features},
                 {"cache_bytes", {{"l1d", facts.l1d}, {"l2", facts.l2}, {"l3", facts.l3}}},
                 {"driver", {{"onetbb", TBB_runtime_version()}, {"highway", cpu::highway_version()}}}};
  return known;
}

nlohmann::json CpuDriver::debug_info(std::size_t ordinal) const {
  const auto limits = cpu_limits();
  return {{"threads", plans_[ordinal].threads},
          {"numa_nodes", topology_.nodes.size()},
          {"affinity", limits.affinity},
          {"cgroup_cpus", limits.quota ? nlohmann::json(*limits.quota) : nlohmann::json()},
          {"page_bytes", sysconf(_SC_PAGESIZE)}};
}

const CpuBackend& CpuDriver::backend(std::size_t ordinal) {
  const std::lock_guard lock(making_);
  auto& backend = backends_[ordinal];
  if (!backend) {
    // On a thread of its own: helpers inherit the place of the thread that makes them, and the caller may be kept to a few cores.
    std::thread maker([&] {
      cpu::run_on_node(topology_, plans_[ordinal].node, [&] {
        backend = std::make_unique<CpuBackend>(plans_[ordinal].threads, kernels::table(), config_.profile, config_.cache);
      });
    });
    maker.join();
  }
  return *backend;
}

Result<Pages> CpuDriver::alloc(std::size_t /*ordinal*/, std::size_t bytes, std::size_t alignment, MemoryMode /*mode*/) {
  if (const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); alignment > page) {
    return Error(ErrorKind::device, fmt::format("an alignment of {} bytes; the CPU gives pages of {}", alignment, page));
  }
  auto slab = Pages::make(bytes);
  if (slab) {
    cpu::ask_for_huge_pages(slab->data(), bytes, true);
  }
  return slab;
}

Status CpuDriver::zero(Stream& /*stream*/, Place<Slab> place, std::size_t bytes) {
  std::memset(address(place), 0, bytes);
  return {};
}

Status CpuDriver::copy_in(Stream& /*stream*/, Place<Slab> to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    std::memcpy(address(to), from, bytes);
  }
  return {};
}

Status CpuDriver::copy_out(Stream& /*stream*/, void* to, Place<Slab> from, std::size_t bytes) {
  if (bytes > 0) {
    std::memcpy(to, address(from), bytes);
  }
  return {};
}

Status CpuDriver::copy(Stream& /*stream*/, Place<Slab> to, Place<Slab> from, std::size_t bytes) {
  std::memcpy(address(to), address(from), bytes);
  return {};
}

Result<std::unique_ptr<CpuDriver::Stream>> CpuDriver::make_stream(std::size_t ordinal, std::size_t subordinal) {
  return std::make_unique<Stream>(
      Stream{ordinal, cpu::place_stream(topology_, plans_, ordinal, subordinal, suggested_streams(ordinal, config_.streams))});
}

void CpuDriver::enter(Stream& stream, const std::function<void()>& body) {
  cpu::run_placed(stream.placement, body);
}

Status CpuDriver::load(Stream& stream, const Graph& graph, const Layout& layout, const TensorSource& tensors, Place<Slab> place) {
  return backend(stream.ordinal).load(tensors, graph, layout, address(place));
}

Result<cpu::Code> CpuDriver::compile(const Graph& graph, const Bucket& bucket, const HardwareLimits& /*limits*/) {
  return cpu::Code::compile(graph, bucket);
}

Result<cpu::Plan> CpuDriver::link(std::size_t ordinal, const Graph& graph, const Layout& layout, const Code& code, Place<Slab> weights) {
  return backend(ordinal).link(cpu::Weights(layout, address(weights)), graph, code);
}

Status CpuDriver::run(Stream& stream, Routine& routine, const Places<Slab>& places, const Extent& counts) {
  const Bucket& bucket = routine.bucket();
  const ScoreLayout scores(bucket);
  std::byte* outputs = address(places.outputs);
  return backend(stream.ordinal)
      .run(routine, batch_at(address(places.inputs), bucket, counts), address(places.arena),
           reinterpret_cast<float*>(outputs + scores.logits), reinterpret_cast<float*>(outputs + scores.act));
}

}  // namespace kime
