// One stream of a device as the engine's Backend: weights are a root context, a workspace is a child of it on the stream, a plan is a
// routine.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kime/engine/backend.h"
#include "kime/engine/code_cache.h"
#include "kime/runtime/multidev.h"
#include "kime/runtime/wait_or_retire.h"

namespace kime {

/// A batch that a device has not answered in time.
[[nodiscard]] inline Error no_answer(const std::string& device, std::chrono::duration<double> timeout) {
  return {ErrorKind::device, device + " has not answered for " + std::to_string(static_cast<long long>(timeout.count() * 1000)) + " ms"};
}

/// Satisfies Backend. Used by one thread at a time, but upload() and the weights.
template <Driver D>
class DeviceBackend {
 public:
  /// A checkpoint on a device; copies are the same.
  struct Weights {
    Context root;
    std::shared_ptr<CodeCache<D>> code;
  };
  /// A stream's own context of a checkpoint: its arena and staging buffers.
  struct Workspace {
    Context context;
    Context last;                                       ///< After all routines: each is linked after the one before.
    std::vector<std::pair<Bucket, Routine<D>>> linked;  ///< By prepare(), not yet asked for.
  };
  /// What copies point to while they are under way stands beside the routine.
  struct Plan {
    Routine<D> routine;
    Bucket bucket;
    std::unique_ptr<std::array<HostRead, 5>> reads = std::make_unique<std::array<HostRead, 5>>();
    std::unique_ptr<std::array<HostWrite, 2>> writes = std::make_unique<std::array<HostWrite, 2>>();
  };

  /// The runtime outlives it. `timeout`: how long a batch may take; 0 is for ever.
  DeviceBackend(Multidev<D>& runtime, Stream stream, Caps caps, std::chrono::duration<double> timeout)
      : runtime_(runtime), stream_(std::move(stream)), caps_(caps), timeout_(timeout) {}

  [[nodiscard]] Caps caps() const { return caps_; }
  [[nodiscard]] Multidev<D>& runtime() const { return runtime_; }
  [[nodiscard]] const Stream& stream() const { return stream_; }

  /// A root context on this stream's device, with the weights read from the host.
  [[nodiscard]] Result<Weights> upload(const TensorSource& tensors, const Graph& graph) const {
    auto model = runtime_.model(std::make_shared<const Graph>(graph), tensors);
    if (!model) {
      return std::move(model).error();
    }
    return upload(tensors, std::make_shared<CodeCache<D>>(runtime_, *std::move(model)));
  }
  [[nodiscard]] Result<Weights> upload(const TensorSource& tensors, std::shared_ptr<CodeCache<D>> code) const {
    auto root = root_context();
    if (!root) {
      return std::move(root).error();
    }
    if (auto loaded = runtime_.init_from_host(*root, stream_, code->model(), tensors); !loaded) {
      static_cast<void>(runtime_.finalize(*root));
      return std::move(loaded).error();
    }
    return Weights{*std::move(root), std::move(code)};
  }
  /// The same with the weights of another device: in place where this one can use its memory, else copied from there.
  [[nodiscard]] Result<Weights> share(const Weights& other) const {
    auto device = runtime_.get_physical_device(stream_);
    if (!device) {
      return std::move(device).error();
    }
    auto shares = runtime_.shares_memory(Device{other.root.state->life, other.root.state->device}, *device);
    if (!shares) {
      return std::move(shares).error();
    }
    if (*shares) {
      auto child = runtime_.make_child(other.root, {.device = *device, .stream = {}, .options = {}, .merge = {}});
      if (!child) {
        return std::move(child).error();
      }
      return Weights{*std::move(child), other.code};
    }
    auto root = root_context();
    if (!root) {
      return std::move(root).error();
    }
    if (auto copied = runtime_.init_from_device(*root, Node::weights, other.root, stream_); !copied) {
      static_cast<void>(runtime_.finalize(*root));
      return std::move(copied).error();
    }
    return Weights{*std::move(root), other.code};
  }

  [[nodiscard]] Result<Workspace> workspace(const Weights& weights) const {
    auto context = runtime_.make_child(weights.root, {.device = {}, .stream = stream_, .options = {}, .merge = {}});
    if (!context) {
      return std::move(context).error();
    }
    return Workspace{*context, *context, {}};
  }

  /// Links all of `buckets` that have been compiled, at once, for the lower() calls to come.
  Status prepare(const Weights& weights, Workspace& workspace, std::span<const Bucket> buckets) const {
    constexpr Node kNeeds[] = {Node::weights};
    auto linked = runtime_.link_batch(workspace.last, weights.code->batch(buckets), kNeeds);
    if (!linked) {
      return std::move(linked).error();
    }
    workspace.last = linked->first;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (linked->second[i]) {
        workspace.linked.emplace_back(buckets[i], *std::move(linked->second[i]));
      }
    }
    return {};
  }

  /// A cached compile and a link.
  [[nodiscard]] Result<Plan> lower(const Weights& weights, const Graph& /*graph*/, const Bucket& bucket, Workspace& workspace) const {
    const auto ready = std::ranges::find(workspace.linked, bucket, &std::pair<Bucket, Routine<D>>::first);
    if (ready != workspace.linked.end()) {
      return Plan{ready->second, bucket};
    }
    auto code = weights.code->get(bucket);
    if (!code) {
      return std::move(code).error();
    }
    auto routine = runtime_.link(workspace.last, *code);
    if (!routine) {
      return std::move(routine).error();
    }
    workspace.last = routine->context;
    return Plan{*std::move(routine), bucket};
  }

  /// Frees what a workspace holds, its routines' contexts first; its plans are then invalid.
  Status release(Workspace& workspace) const {
    while (workspace.last.state != workspace.context.state) {
      auto before = runtime_.parent(workspace.last);
      if (!before) {
        return std::move(before).error();
      }
      if (auto freed = runtime_.finalize(workspace.last); !freed) {
        return freed;
      }
      workspace.last = **before;
    }
    return runtime_.finalize(workspace.context);
  }
  /// The same for weights, when no workspace and no other device uses them.
  Status release(const Weights& weights) const { return runtime_.finalize(weights.root); }

  /// Schedules a batch, which stays as it is until an event after it: the scores are then in the routine's context.
  Status compute(Plan& plan, const Batch& batch) const {
    const BatchLayout layout(plan.bucket);
    *plan.reads = {HostRead{layout.ids, batch.ids.data(), batch.ids.size_bytes()},
                   HostRead{layout.cu, batch.cu.data(), batch.cu.size_bytes()},
                   HostRead{layout.markers, batch.markers.data(), batch.markers.size_bytes()},
                   HostRead{layout.mcu, batch.mcu.data(), batch.mcu.size_bytes()},
                   HostRead{layout.qtype, batch.qtype.data(), batch.qtype.size_bytes()}};
    auto copied = runtime_.from_host(plan.routine.context, Node::inputs, *plan.reads);
    if (!copied) {
      return std::move(copied).error();
    }
    return runtime_.launch(plan.routine, {.counts = {batch.ids.size(), batch.seqs(), batch.markers.size()}, .slot = 0});
  }

  /// Waits for what has been scheduled in a context. Errors: what failed; a device that has not answered in time, which is then retired.
  Status wait(const Context& context) const {
    const auto why = [this] {
      auto name = runtime_.get_name(stream_);
      return no_answer(name ? *name : "a device", timeout_);
    };
    auto done = wait_or_retire(runtime_, stream_, runtime_.all_work(context), timeout_, why);
    if (!done) {
      return std::move(done).error();
    }
    return *done ? Status() : Status(why());
  }

  /// The synchronizations that transfers leave to their caller are here: the batch and `outputs` are the host's again when it returns.
  Status run(Plan& plan, const Batch& batch, Outputs& outputs) const {
    outputs.logits.resize(batch.markers.size());
    outputs.act.resize(batch.seqs());
    if (auto scheduled = compute(plan, batch); !scheduled) {
      static_cast<void>(wait(plan.routine.context));
      return scheduled;
    }
    const ScoreLayout layout(plan.bucket);
    *plan.writes = {HostWrite{layout.logits, outputs.logits.data(), outputs.logits.size() * sizeof(float)},
                    HostWrite{layout.act, outputs.act.data(), outputs.act.size() * sizeof(outputs.act[0])}};
    auto copied = runtime_.to_host(plan.routine.context, Node::outputs, *plan.writes);
    auto done = wait(plan.routine.context);
    return copied ? done : std::move(copied).error();
  }

 private:
  [[nodiscard]] Result<Context> root_context() const {
    auto device = runtime_.get_physical_device(stream_);
    if (!device) {
      return std::move(device).error();
    }
    auto limits = runtime_.hardware_limits();
    if (!limits) {
      return std::move(limits).error();
    }
    return runtime_.make_context(*device, {}, {.limits = *limits});
  }

  Multidev<D>& runtime_;
  Stream stream_;
  Caps caps_;
  std::chrono::duration<double> timeout_;
};

}  // namespace kime
