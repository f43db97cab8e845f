// What a stream or a device has in memory: contexts, the nodes they hold, and the buffers these are in. Numbers only, no addresses.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "kime/runtime/stream_queue.h"

namespace kime {

/// A slab of a device, by number. Ids that the runtime gives ascend from 2^32 on each device, so that the caller may use those below.
using PoolId = std::uint64_t;
inline constexpr PoolId kFirstOwnPool = PoolId{1} << 32;

/// A piece of a pool.
struct Buffer {
  std::size_t device = 0;  ///< The ordinal of the device whose pool it is: another one that shares its memory may use it in place.
  PoolId pool = 0;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool operator==(const Buffer&) const = default;
};

/// What a context has a buffer for.
enum class Node : std::uint8_t {
  weights,    ///< The packed weights of one checkpoint.
  arena,      ///< The values of the graph while a batch runs.
  inputs,     ///< A batch, as BatchLayout says.
  outputs,    ///< Its scores, as ScoreLayout says.
  collected,  ///< The scores of several checkpoints, one after another.
};
inline constexpr std::size_t kNodes = 5;
[[nodiscard]] std::string_view to_string(Node node);

/// How a routine reads a node that comes from another context.
enum class MergeUse : std::uint8_t {
  none,       ///< It does not.
  copy,       ///< From the merge buffer of its own context, into which the node was copied.
  streaming,  ///< From the source's buffer, in place: only on devices that share memory.
};
[[nodiscard]] std::string_view to_string(MergeUse use);

/// The node that a routine takes from a merge buffer.
struct MergeNode {
  Node node = Node::outputs;
  MergeUse use = MergeUse::none;
  bool operator==(const MergeNode&) const = default;
};

/// What code for a context is compiled under.
struct LoweringOptions {
  HardwareLimits limits;
};

/// Ties handles to the runtime that gave them: they outlive its clean-up, and say so.
struct RuntimeLife {
  std::atomic<bool> valid{true};
};

/// A physical device.
struct Device {
  std::shared_ptr<RuntimeLife> life;
  std::size_t ordinal = 0;
};

/// A stream of a device: its virtual device.
struct Stream {
  std::shared_ptr<RuntimeLife> life;
  std::size_t ordinal = 0;     ///< Of its device.
  std::size_t subordinal = 0;  ///< Of its own, from 0 on each device.
};

/// Behind a Context handle. A child's lookups go up to its parents, so that a buffer that a parent has replaced by a larger one is seen by
/// all of its children.
struct ContextState {
  std::shared_ptr<RuntimeLife> life;
  TaskGroup group = kNoGroup;  ///< Of the context that has the stream; children inherit it: a batch's tasks fail together.
  std::size_t device = 0;
  std::optional<std::size_t> stream;  ///< The subordinal of the stream that it uses.
  std::shared_ptr<ContextState> parent;
  LoweringOptions options;
  std::optional<MergeNode> merge;

  std::mutex mutex;  ///< Of all below.
  std::array<std::optional<Buffer>, kNodes> buffers;
  std::vector<Buffer> own;  ///< Pools that it frees in the end.
  std::optional<Buffer> merge_buffer;
  std::size_t merge_bytes = 0;         ///< What the routine that is linked for it takes of a node; 0 where there is none: all.
  std::optional<Buffer> merge_source;  ///< What a routine with a merge use reads.
  MergeUse merge_kind = MergeUse::none;
  std::vector<Stream> readers;  ///< Streams that have been told to read its buffers from elsewhere.
  std::size_t children = 0;
  bool finalized = false;

  /// The buffer of a node, here or in the nearest parent that has one.
  [[nodiscard]] std::optional<Buffer> find(Node node);
  /// The context that holds it: this one, or the nearest parent that has one; null where there is none.
  [[nodiscard]] ContextState* holder(Node node);
};

/// A handle; copies are the same context.
struct Context {
  std::shared_ptr<ContextState> state;
};

/// A point of a stream.
struct Event {
  std::shared_ptr<RuntimeLife> life;
  std::shared_ptr<StreamQueue> queue;
  std::size_t ordinal = 0;
  std::size_t subordinal = 0;
  Ticket ticket = 0;  ///< Of the task that marks it.
  Ticket mark = 0;    ///< What the driver was told to mark.
  TaskGroup group = kNoGroup;
  Ticket since = 0;  ///< Its group has waited for what lies before this mark.
};

}  // namespace kime
