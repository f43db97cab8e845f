// One runtime for all devices of a kind: devices, streams, events, memory, contexts, code and transfers. README.md maps each to its use.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kime/runtime/calls.h"
#include "kime/runtime/code.h"
#include "kime/runtime/device_state.h"
#include "kime/runtime/io_layout.h"

namespace kime {

template <Driver D>
struct RuntimeConfig {
  typename D::Config driver;
  StreamStrategy streams;
  bool operator==(const RuntimeConfig&) const = default;
};

/// A piece of host memory beside a node: `bytes` from `offset` of its buffer on.
struct HostRead {
  std::size_t offset = 0;
  const void* host = nullptr;
  std::size_t bytes = 0;
};
struct HostWrite {
  std::size_t offset = 0;
  void* host = nullptr;
  std::size_t bytes = 0;
};

/// All members may be called from several threads at once, but initialize() and unsafe_cleanup(), which nothing else may run beside.
/// Whatever is asked of a device, a stream, an event or a context that this runtime did not give, or has given up, is an error of kind
/// `device` and nothing else happens; so are a driver's own errors. What is scheduled runs later, in the order of its stream: its errors
/// come out of sync(), await() and is_done() of an event after it, and skip what was scheduled behind it in the same context.
template <Driver D>
class Multidev {
 public:
  Multidev() = default;
  Multidev(const Multidev&) = delete;
  Multidev& operator=(const Multidev&) = delete;
  ~Multidev() { unsafe_cleanup(); }

  // ---- the runtime

  /// Notes the configuration; devices are looked for when first asked for. Again with the same configuration: nothing.
  /// Errors: another configuration while initialized; no streams, or too many.
  Status initialize(const RuntimeConfig<D>& config);
  [[nodiscard]] bool is_initialized() const;
  /// Ends all streams (what is queued is done first, but on a lost device), frees all memory, and makes every handle invalid. A thread
  /// that hangs in the driver is left to itself, with what it may still use.
  void unsafe_cleanup();
  /// Sees all that streams do; set before the first stream is made. Called on the streams' threads.
  using Observer = std::function<void(std::size_t ordinal, std::size_t subordinal, const TaskSpan&)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  // ---- devices and streams

  [[nodiscard]] static std::string_view name() { return D::kName; }
  /// Errors: those of opening the driver, which this does when it is the first to ask.
  Result<std::size_t> num_devices();
  /// Errors: an ordinal past the last.
  Result<Device> get_device(std::size_t ordinal);
  Result<std::string> get_name(const Device& device);  ///< "cpu:0"
  Result<std::string> get_name(const Stream& stream);  ///< "cpu:0.1"
  Result<std::size_t> to_ordinal(const Device& device);
  Result<Device> get_physical_device(const Stream& stream);
  Result<std::size_t> to_subordinal(const Stream& stream);
  /// By the configuration's strategy.
  Result<std::size_t> suggested_num_virtual_devices(const Device& device);
  /// A new stream. Errors: those of the driver, and no more threads.
  Result<Stream> new_virtual_device(const Device& device);
  /// What the driver knows of a device, and can do.
  Result<DeviceProperties> properties(const Device& device);
  Result<Caps> caps(const Device& device);
  Result<bool> shares_memory(const Device& from, const Device& to);

  // ---- work and events

  /// Appends work to a stream, or to a device's first. Waits only while the queue is full (StreamQueue::kCapacity tasks). The task may
  /// not be called at all: when one before it in its context failed, or the stream died.
  Status schedule_task(const Stream& stream, Task task, const char* label = "task");
  Status schedule_task(const Device& device, Task task, const char* label = "task");
  /// Waits until all that was scheduled is done. Errors: the first of its failures.
  Status await(const Stream& stream);
  Status await(const Device& device);
  /// Whether nothing is queued, and the last event has come.
  Result<bool> is_idle(const Stream& stream);
  Result<bool> is_idle(const Device& device);
  /// The point after all that is scheduled now: of a stream, of a device's streams together, of a context's tasks (whose failures it then
  /// stands for).
  Result<Event> all_work(const Stream& stream);
  Result<Event> all_work(const Device& device);
  Result<Event> all_work(const Context& context);
  /// Waits for an event. Errors: what failed before it, which is then forgotten.
  Status sync(const Event& event);
  /// The same; false when the deadline came first.
  Result<bool> sync_until(const Event& event, Deadline deadline);
  /// True, or an error when it failed or its stream died: never false for ever. What an event failed with it keeps, for all who ask.
  Result<bool> is_done(const Event& event);
  /// What is scheduled in `context` from now on waits for an event, perhaps of another stream or device, and fails where that failed.
  Status will_wait_for(const Context& context, const Event& event);
  /// Gives a device up: its streams die with `why`, whoever waits gets it, memory is set aside, late results are thrown away.
  Status retire(const Device& device, const Error& why);
  /// Keeps something of the host's for as long as a thread may hang in a call on this device.
  Status set_aside(const Device& device, std::shared_ptr<void> what);
  /// Why a device was given up or died, if it was.
  Result<std::optional<Error>> lost(const Device& device);

  // ---- memory

  /// Makes slab `pool` of a device. Errors: an id in use, an alignment that is no power of two, no memory.
  Status alloc_pool(const Device& device, PoolId pool, std::size_t bytes, std::size_t alignment, MemoryMode mode);
  /// Frees it, after all that is scheduled on its device. Errors: an id not in use.
  Status free_pool(const Device& device, PoolId pool);
  /// Zeroes a piece of a pool in the order of a stream. Errors: past its end.
  Status memset_zero(const Stream& stream, PoolId pool, std::size_t offset, std::size_t bytes);
  /// A buffer in a pool of its own; `old` is kept if it is large enough, else freed first (its contents are lost): growing reuses the slab.
  /// `stream`: the one whose pool it is, which is waited for before `old` goes; without it, all of the device are.
  Result<Buffer> alloc_buffer(const Device& device, std::size_t bytes, MemoryMode mode, const std::optional<Buffer>& old = {},
                              const std::optional<Stream>& stream = {});
  /// The buffer of a node, where the context or one above it has one.
  Result<std::optional<Buffer>> get_buffer(const Context& context, Node node);
  /// Schedules a copy from a node to a buffer of the same device; from host memory to a buffer; from a buffer to host memory. The host
  /// leaves that memory alone until an event after it.
  Status to_buffer(const Context& from, Node node, const Buffer& to);
  Status host_to_buffer(const Stream& stream, const void* from, const Buffer& to, std::size_t bytes);
  Status buffer_to_host(const Stream& stream, const Buffer& from, void* to, std::size_t bytes);
  /// Bytes of all pools of a device: at least what is in use.
  Result<std::size_t> get_used_memory(const Device& device);

  // ---- contexts

  /// A context without a parent; with a stream it can run routines.
  Result<Context> make_context(const Device& device, const std::optional<Stream>& stream = {}, const LoweringOptions& options = {});
  /// What is left out is the parent's.
  struct Child {
    std::optional<Device> device;  ///< One that shares the parent's memory, unless no node of the parent is used.
    std::optional<Stream> stream;
    std::optional<LoweringOptions> options;
    std::optional<MergeNode> merge;
  };
  Result<Context> make_child(const Context& parent, const Child& child = {});
  Result<std::optional<Context>> parent(const Context& context);
  /// Waits for its stream (without one: for all of its device) and for those that read from it by device_to_device, and frees the pools of
  /// this context only; the handle is then invalid. Errors: children live.
  Status finalize(const Context& context);
  /// Gives a context a buffer for a node, or a larger one.
  Status need(const Context& context, Node node, std::size_t bytes, MemoryMode mode);

  // ---- code

  /// How a checkpoint's weights would lie here. Errors: `unsupported`, `input`.
  Result<Model<D>> model(std::shared_ptr<const Graph> graph, const TensorSource& tensors);
  Result<Code<D>> compile(CodeSource<D> source, const std::string& name, const CompileOptions& options = {});
  /// One by one the same code. Errors: of the first that fails; names and sources that do not agree in number.
  Result<CodeBatch<D>> compile_batch(std::vector<CodeSource<D>> sources, const std::vector<std::string>& names,
                                     const CompileOptions& options = {});
  /// What each entry expects in a merge buffer.
  Result<std::vector<std::optional<MergeNode>>> expected_merge_nodes(const CodeBatch<D>& batch);
  /// Binds code to the memory of a context that has a stream; grows the arena and the staging buffers of the context that owns them.
  /// Errors: a context without weights for a graph, no memory.
  Result<Routine<D>> link(const Context& context, const Code<D>& code);
  /// The same for each entry there is; `from_prior_context`: nodes that must be there before. The context comes after all routines.
  Result<std::pair<Context, std::vector<std::optional<Routine<D>>>>> link_batch(const Context& context, const CodeBatch<D>& batch,
                                                                                std::span<const Node> from_prior_context = {});
  /// The least limits over all devices; looked up once, when first asked for.
  Result<HardwareLimits> hardware_limits();
  /// Schedules a routine. Errors: counts past its bucket; a merge routine whose node has not been brought.
  Status launch(const Routine<D>& routine, const Launch& launch);

  // ---- transfers

  /// False where the context has no such node. The pieces and what they point to stay as they are until an event after the copy.
  Result<bool> from_host(const Context& context, Node node, std::span<const HostRead> pieces);
  /// The same the other way: read them after an event.
  Result<bool> to_host(const Context& context, Node node, std::span<const HostWrite> pieces);
  /// Reads a checkpoint's weights into a context, on `stream` of its device, and waits for it. Should the device be given up meanwhile, it
  /// may still read `tensors`.
  Status init_from_host(const Context& context, const Stream& stream, const Model<D>& model, const TensorSource& tensors);
  /// Makes a node in dst as large as in src, and copies it, on `stream` of dst's device, after what is scheduled in src.
  Status init_from_device(const Context& dst, Node node, const Context& src, const Stream& stream);
  /// Brings a node from src to dst. MergeUse::none: false where dst lacks the node. copy: into dst's merge buffer. streaming: remembers
  /// src's buffer; never waits. Errors: src lacks the node and dst has it or a merge is asked for; a use or a node other than the one that
  /// dst was linked for.
  Result<bool> device_to_device(Node node, MergeUse use, const Context& dst, const Context& src);

  // ---- words, for people and bug reports

  /// Every device: stable.
  Result<nlohmann::json> static_properties();
  /// Counts of all calls and whatever else helps: may change with any version.
  nlohmann::json get_global_debug_info();
  Result<nlohmann::json> get_debug_info(const Device& device);
  nlohmann::json describe(const Device& device);
  nlohmann::json describe(const Stream& stream);
  nlohmann::json describe(const Event& event);
  nlohmann::json describe(const Context& context);
  nlohmann::json describe(const Buffer& buffer);
  nlohmann::json describe(const Code<D>& code);
  nlohmann::json describe(const Routine<D>& routine);
  [[nodiscard]] const CallCounts& calls() const { return calls_; }

 private:
  using DevicePtr = std::shared_ptr<DeviceState<D>>;
  using StreamPtr = std::shared_ptr<StreamState<D>>;
  /// How long a wait in a driver lasts before the runtime looks whether it has been in vain.
  static constexpr std::chrono::milliseconds kSlice{20};
  struct StreamOf {
    DevicePtr device;
    StreamPtr stream;
  };

  Status check_life(const std::shared_ptr<RuntimeLife>& life, std::string_view what) const;
  Result<D*> driver();
  Result<DevicePtr> find(const Device& device);
  Result<StreamOf> find(const Stream& stream);
  Result<StreamOf> find(const Event& event);
  Result<DevicePtr> find(const Context& context);
  Result<StreamOf> stream_of(const Context& context);
  Result<DevicePtr> device_at(std::size_t ordinal);
  DevicePtr make_device(std::size_t ordinal);

  /// Schedules fn(driver, native stream).
  template <class Fn>
  Status run_on(const StreamOf& on, const char* label, TaskGroup group, Fn fn);
  template <class Piece, class Fn>
  Result<bool> copy_pieces(const Context& context, Node node, std::span<const Piece> pieces, const char* label, Fn fn);
  Status reaches(const StreamOf& on, const Buffer& buffer);
  Status copy_on(const StreamOf& on, const Buffer& from, const Buffer& to, std::size_t bytes, const char* label, TaskGroup group);
  Status grow(ContextState& state, std::optional<Buffer>& slot, std::size_t bytes, MemoryMode mode);
  struct MarkedPoint {
    Ticket ticket = 0;
    Ticket mark = 0;
    bool owned = false;  ///< It is behind tasks of a group, which will look at it.
  };
  /// How many marks a group keeps before it forgets those that it has waited for.
  static constexpr std::size_t kMarksKept = 64;
  Status begin_group(const StreamOf& on, TaskGroup group);
  Result<MarkedPoint> mark_now(const StreamOf& on);
  Result<MarkedPoint> mark_at_end(const StreamOf& on);
  static void waited(const StreamOf& on, const Event& event);
  static Status late_failure(const StreamOf& on, const Event& event);
  Result<Event> mark(const StreamOf& on, const Stream& stream, TaskGroup group);
  static Result<bool> finish(D& driver, StreamState<D>& stream, Ticket mark, Deadline deadline, StreamQueue* waiter = nullptr);
  Status wait_on(const StreamOf& on, TaskGroup group, const Event& event);
  bool idle(const StreamOf& on);
  /// Waits until a stream has done all that is scheduled, whatever became of it: before memory goes.
  void settle(const StreamOf& on);
  void settle(ContextState& context);
  static Status drop(DeviceState<D>& device, PoolId pool);
  static std::vector<StreamPtr> streams_of(DeviceState<D>& device);
  std::vector<DevicePtr> lenders_to(const DeviceState<D>& device);
  Result<Place<typename D::Slab>> place(const Buffer& buffer, std::size_t offset, std::size_t bytes);
  Result<Place<typename D::Slab>> place(const Context& context, Node node, std::size_t bytes);
  Context owner_of_stream(const Context& context) const;
  Status need_for(const Context& context, const CodeState<D>& code, const typename D::Code* compiled);
  Result<std::shared_ptr<const typename D::Code>> compiled(CodeState<D>& code);
  Status launch_merge(const Routine<D>& routine, const MergeSource& source, std::size_t slot);

  mutable std::mutex mutex_;  // of all below
  std::shared_ptr<RuntimeLife> life_;
  std::optional<RuntimeConfig<D>> config_;
  std::shared_ptr<D> driver_;
  std::vector<DevicePtr> devices_;
  std::optional<HardwareLimits> limits_;
  std::atomic<TaskGroup> groups_{kNoGroup};
  Observer observer_;
  CallCounts calls_;
};

}  // namespace kime

#include "kime/runtime/multidev_code.h"
#include "kime/runtime/multidev_devices.h"
#include "kime/runtime/multidev_losses.h"
#include "kime/runtime/multidev_memory.h"
#include "kime/runtime/multidev_transfers.h"
#include "kime/runtime/multidev_words.h"
#include "kime/runtime/multidev_work.h"
