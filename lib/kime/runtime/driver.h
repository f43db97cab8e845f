// What a kind of device must provide, as a C++20 concept. Multidev lifts a driver to all the devices of its kind.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/caps.h"
#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/batch/bucket.h"
#include "kime/graph/graph.h"
#include "kime/graph/planner.h"
#include "kime/runtime/strategy.h"

namespace kime {

/// Where a slab should lie. A driver that has only one kind of memory ignores it, and says so in its properties (`memory_modes`).
enum class MemoryMode : std::uint8_t { device, pinned_host, managed };

/// Limits that compiled code must keep to; none where there is no limit.
struct HardwareLimits {
  std::optional<std::size_t> bucket_tokens;       ///< The largest bucket.
  std::optional<std::size_t> threads_per_group;   ///< Of a work group.
  std::optional<std::size_t> group_memory_bytes;  ///< Shared memory of a work group.
  bool operator==(const HardwareLimits&) const = default;
};

/// What is known of a device without using it.
struct DeviceProperties {  // NOLINT(bugprone-exception-escape): the check takes moving JSON for something that throws
  std::string kind;        ///< "cpu", "cuda"
  std::string bits_class;  ///< Devices of one class give the same bits (design, section 7).
  std::string name;        ///< What the maker calls it.
  std::size_t cores = 0;
  double speed_hint = 0;                ///< How fast it is beside others of its kind, roughly and unmeasured: to choose a class.
  std::optional<int> node;              ///< The NUMA node, where it has one.
  std::uint64_t memory_bytes = 0;       ///< That the device has for this process.
  std::uint64_t memory_used_bytes = 0;  ///< Of it, by anybody.
  std::string memory_modes;             ///< Which modes mean something here, in words.
  nlohmann::json facts;                 ///< Instruction set, features, driver and library versions: an object.
};

/// A point of a slab, for drivers only: above the runtime memory has numbers, no addresses.
template <class Slab>
struct Place {
  Slab* slab = nullptr;
  std::size_t offset = 0;
};

/// Where a routine finds its nodes at one launch.
template <class Slab>
struct Places {
  Place<Slab> weights;
  Place<Slab> arena;
  Place<Slab> inputs;   ///< As BatchLayout says.
  Place<Slab> outputs;  ///< As ScoreLayout says.
};

/// A stream's place in time: tickets ascend along a stream from 1.
using Ticket = std::uint64_t;
/// Until when to wait; for ever without.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;
/// In so long from now; for ever in 0.
[[nodiscard]] inline Deadline deadline_in(std::chrono::duration<double> timeout) {
  return timeout.count() > 0
             ? Deadline(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout))
             : std::nullopt;
}

/// All members may be called from several threads at once, those with a Stream from one thread at a time for each stream, unless they say
/// otherwise. A native stream is driven by a host thread of the runtime's own: what its functions enqueue may still be under way when they
/// return, in the order of the calls; a driver whose devices are the host's own cores simply does it. Errors are of kind `device`.
///
/// Opening: `D::open(config)` finds the devices; nothing touches the hardware before. Config is compared with ==.
/// - `num_devices`, `properties`, `limits`, `caps`, `suggested_streams`, by ordinal.
/// - `shares_memory(a, b)`: device b can use the slabs of a in place.
/// - `alive(ordinal)`: false once an error was sticky: nothing on this device will work again.
///
/// Memory: `alloc` makes a slab, which frees itself; any thread, also after its device has failed. `zero`, `copy_in`, `copy_out` and `copy`
/// (between two places, the second perhaps on another device) are in stream order. Host memory is left alone by others until then.
///
/// Streams: `make_stream`; `enter(stream, body)` runs body on the calling thread, bound to where the device is.
/// - `record(stream, ticket)` marks a point; `reached` asks whether it has come, `finish` waits for it (false at the deadline): from any
///   thread. What fails after its call has returned fails the next mark, for all who ask for that one, or is sticky.
/// - `wait_for(stream, other, ticket)` lets a stream wait for a point of another that has been recorded, and fail where that failed. The
///   other is a stream of the same device: between devices the host waits.
///
/// Code: `layout(graph, tensors)` says how weights lie in memory (`bytes()`), or that they cannot be run (`unsupported`); `load` reads and
/// converts them to a place. `compile` is device-independent and made under `limits`; `arena_bytes(ordinal, code)` is what a launch needs
/// beside inputs and outputs; `link` makes it concrete for a device and the place of its weights; `run` launches it for a batch of so many
/// tokens, sequences and markers, which the inputs hold.
template <class D>
concept Driver = requires(D& driver, const D& known, const typename D::Config& config, std::size_t ordinal, StreamStrategy strategy,
                          typename D::Stream& stream, Place<typename D::Slab> place, const Places<typename D::Slab>& places,
                          std::size_t bytes, MemoryMode mode, Ticket ticket, Deadline deadline, const void* from, void* to,
                          const std::function<void()>& body, const Graph& graph, const TensorSource& tensors,
                          const typename D::Layout& layout, const Bucket& bucket, const HardwareLimits& limits,
                          const typename D::Code& code, typename D::Routine& routine, const Extent& counts) {
  requires std::equality_comparable<typename D::Config>;
  { D::kName } -> std::convertible_to<std::string_view>;
  { D::open(config) } -> std::same_as<Result<std::unique_ptr<D>>>;
  { known.num_devices() } -> std::same_as<std::size_t>;
  { known.properties(ordinal) } -> std::same_as<DeviceProperties>;
  { known.limits(ordinal) } -> std::same_as<HardwareLimits>;
  { known.caps(ordinal) } -> std::same_as<Caps>;
  { known.suggested_streams(ordinal, strategy) } -> std::same_as<std::size_t>;
  { known.shares_memory(ordinal, ordinal) } -> std::same_as<bool>;
  { known.alive(ordinal) } -> std::same_as<bool>;
  { known.debug_info(ordinal) } -> std::same_as<nlohmann::json>;

  { driver.alloc(ordinal, bytes, bytes, mode) } -> std::same_as<Result<typename D::Slab>>;
  { driver.zero(stream, place, bytes) } -> std::same_as<Status>;
  { driver.copy_in(stream, place, from, bytes) } -> std::same_as<Status>;
  { driver.copy_out(stream, to, place, bytes) } -> std::same_as<Status>;
  { driver.copy(stream, place, place, bytes) } -> std::same_as<Status>;

  { driver.make_stream(ordinal, ordinal) } -> std::same_as<Result<std::unique_ptr<typename D::Stream>>>;
  { driver.enter(stream, body) } -> std::same_as<void>;
  { driver.record(stream, ticket) } -> std::same_as<Status>;
  { driver.reached(stream, ticket) } -> std::same_as<Result<bool>>;
  { driver.finish(stream, ticket, deadline) } -> std::same_as<Result<bool>>;
  { driver.wait_for(stream, stream, ticket) } -> std::same_as<Status>;

  { driver.layout(graph, tensors) } -> std::same_as<Result<typename D::Layout>>;
  { layout.bytes() } -> std::same_as<std::size_t>;
  { driver.load(stream, graph, layout, tensors, place) } -> std::same_as<Status>;
  { driver.compile(graph, bucket, limits) } -> std::same_as<Result<typename D::Code>>;
  { known.arena_bytes(ordinal, code) } -> std::same_as<std::size_t>;
  { driver.link(ordinal, graph, layout, code, place) } -> std::same_as<Result<typename D::Routine>>;
  { driver.run(stream, routine, places, counts) } -> std::same_as<Status>;
};

}  // namespace kime
