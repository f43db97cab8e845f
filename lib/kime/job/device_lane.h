// A lane over streams of one kind of device.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kime/engine/device_backend.h"
#include "kime/engine/executor.h"
#include "kime/job/lane.h"

namespace kime {

/// A stream that a lane uses for one checkpoint.
template <Driver D>
struct LanePart {
  std::size_t device = 0;  ///< Of the fleet.
  Executor<DeviceBackend<D>> executor;
};

/// What lanes ask of their fleet.
template <Driver D>
class LaneSupport {
 public:
  virtual ~LaneSupport() = default;
  /// A new part for checkpoint `model` on a device.
  virtual Result<LanePart<D>> make_part(std::size_t device, std::size_t stream, std::size_t model) = 0;
  /// Whether the device is gone, now that something has failed there; it is then given up.
  [[nodiscard]] virtual bool lost(std::size_t device, const Error& failure) = 0;
  /// Keeps something for as long as a call on a lost device may hang.
  virtual void set_aside(std::size_t device, std::shared_ptr<void> what) = 0;
  /// Code that collects a checkpoint's scores for a bucket: by copy, by streaming.
  virtual Result<CodeBatch<D>> merge_code(const Bucket& bucket) = 0;
};

template <Driver D>
class DeviceLane final : public Lane, public std::enable_shared_from_this<DeviceLane<D>> {
 public:
  /// `stream`: the number that its streams have on their devices, where those have so many. The support outlives it.
  DeviceLane(LaneSupport<D>& support, std::size_t stream, std::vector<LanePart<D>> parts)
      : support_(support), stream_(stream), parts_(std::move(parts)) {}

  [[nodiscard]] std::vector<std::size_t> devices() const override {
    std::vector<std::size_t> devices;
    for (const auto& part : parts_) {
      devices.push_back(part.device);
    }
    return devices;
  }

  std::optional<LaneFailure> prepare(std::span<const Bucket> buckets) override {
    for (auto& part : parts_) {
      if (auto prepared = part.executor.prepare(buckets); !prepared) {
        return failure(part, std::move(prepared).error());
      }
    }
    return std::nullopt;
  }

  std::optional<LaneFailure> score(Bucket& used) override {
    this->host->outputs.resize(parts_.size());
    const Batch batch = this->host->buffer.batch();
    if (parts_.size() > 1) {
      return score_all(batch, this->host->outputs, used);
    }
    auto ran = parts_[0].executor.run(batch, this->host->outputs[0]);
    if (!ran) {
      return failure(parts_[0], std::move(ran).error());
    }
    used = *ran;
    return std::nullopt;
  }

  /// Frees what its streams hold for it. Errors: the first that there was; the rest is freed all the same.
  Status close() {
    Status all;
    for (auto& part : parts_) {
      if (auto freed = part.executor.backend().release(part.executor.workspace()); !freed && all) {
        all = std::move(freed);
      }
    }
    return all;
  }

  bool repair(std::span<const char> retired) override {
    if (parts_.size() == 1) {
      return false;
    }
    for (std::size_t model = 0; model < parts_.size(); ++model) {
      if (retired[parts_[model].device] != 0 && !move(model, retired)) {
        return false;
      }
    }
    for (auto& merge : merges_) {
      const std::size_t device = merge->device;
      support_.set_aside(device, std::move(merge));
    }
    merges_.clear();
    return true;
  }

 private:
  using Backend = DeviceBackend<D>;
  /// The routines that collect the scores of a bucket, on the last part's stream; by use.
  struct Merge {
    Bucket bucket;
    std::size_t device = 0;
    std::vector<std::optional<Routine<D>>> routines;
    std::vector<std::optional<MergeNode>> expected;
    std::vector<HostWrite> writes;
  };

  LaneFailure failure(const LanePart<D>& part, Error error) {
    const bool lost = support_.lost(part.device, error);
    if (lost) {
      support_.set_aside(part.device, this->shared_from_this());
      support_.set_aside(part.device, std::exchange(this->host, std::make_shared<LaneHost>()));
    }
    return {std::move(error), part.device, lost};
  }

  // The next device that is left, from the one that the part had.
  bool move(std::size_t model, std::span<const char> retired) {
    for (std::size_t step = 1; step < retired.size(); ++step) {
      const std::size_t device = (parts_[model].device + step) % retired.size();
      if (retired[device] != 0) {
        continue;
      }
      if (auto part = support_.make_part(device, stream_, model)) {
        const std::size_t from = parts_[model].device;
        support_.set_aside(from, std::make_shared<LanePart<D>>(std::exchange(parts_[model], *std::move(part))));
        return true;
      }
    }
    return false;
  }

  // All checkpoints compute, each on its stream; the last one's stream then collects their scores. Other devices are waited for here and
  // not by that stream: should one of them hang, nothing else waits behind it and seems to hang too.
  std::optional<LaneFailure> score_all(const Batch& batch, std::span<Outputs> outputs, Bucket& used) {
    std::vector<typename Backend::Plan*> plans;
    for (auto& part : parts_) {
      auto plan = part.executor.plan(batch, used);
      if (!plan) {
        return failure(part, std::move(plan).error());
      }
      plans.push_back(*plan);
    }
    auto merge = merge_for(used);
    if (!merge) {
      return failure(parts_.back(), std::move(merge).error());
    }
    std::optional<LaneFailure> failed;
    const auto keep_first = [&](const LanePart<D>& part, Status status) {
      if (!status && !failed) {
        failed = failure(part, std::move(status).error());
      }
    };
    const auto wait_for = [&](bool with_the_last) {
      for (std::size_t model = 0; model < parts_.size(); ++model) {
        if ((parts_[model].device == parts_.back().device) == with_the_last) {
          keep_first(parts_[model], parts_[model].executor.backend().wait(plans[model]->routine.context));
        }
      }
    };
    for (std::size_t model = 0; model < parts_.size() && !failed; ++model) {
      keep_first(parts_[model], parts_[model].executor.backend().compute(*plans[model], batch));
    }
    wait_for(false);
    if (!failed) {
      keep_first(parts_.back(), collect(batch, plans, **merge, outputs));
    }
    wait_for(true);  // also after a failure: the batch and the outputs must be the host's again
    return failed;
  }

  Status collect(const Batch& batch, std::span<typename Backend::Plan*> plans, Merge& merge, std::span<Outputs> outputs) {
    const Backend& lead = parts_.back().executor.backend();
    Multidev<D>& runtime = lead.runtime();
    for (std::size_t model = 0; model < parts_.size(); ++model) {
      if (auto merged = bring(runtime, plans[model]->routine.context, merge, model); !merged) {
        return merged;
      }
    }
    const ScoreLayout layout(merge.bucket);
    merge.writes.clear();
    for (std::size_t model = 0; model < parts_.size(); ++model) {
      Outputs& out = outputs[model];
      out.logits.resize(batch.markers.size());
      out.act.resize(batch.seqs());
      merge.writes.push_back({model * layout.bytes + layout.logits, out.logits.data(), out.logits.size() * sizeof(float)});
      merge.writes.push_back({model * layout.bytes + layout.act, out.act.data(), out.act.size() * sizeof(out.act[0])});
    }
    // In the group of the last part's own context, whose event is waited for.
    auto copied = runtime.to_host(plans.back()->routine.context, Node::collected, merge.writes);
    if (!copied) {
      return std::move(copied).error();
    }
    return {};
  }

  // One checkpoint's scores to their slot: in place on one device, by a copy from another.
  Status bring(Multidev<D>& runtime, const Context& from, Merge& merge, std::size_t model) {
    const MergeUse use = parts_[model].device == parts_.back().device ? MergeUse::streaming : MergeUse::copy;
    const auto wanted = std::ranges::find_if(merge.expected, [&](const auto& node) { return node && node->use == use; });
    const Routine<D>& routine = *merge.routines[static_cast<std::size_t>(wanted - merge.expected.begin())];
    if (use == MergeUse::streaming && from.state->group != routine.context.state->group) {
      auto ready = runtime.all_work(from);
      if (!ready) {
        return std::move(ready).error();
      }
      auto done = runtime.is_done(*ready);
      if (auto waits = done && *done ? Status() : runtime.will_wait_for(routine.context, *ready); !waits) {
        return waits;
      }
    }
    auto brought = runtime.device_to_device(wanted->value().node, use, routine.context, from);
    if (!brought) {
      return std::move(brought).error();
    }
    return runtime.launch(routine, {.counts = {}, .slot = model});
  }

  Result<Merge*> merge_for(const Bucket& bucket) {
    const auto found = std::ranges::find(merges_, bucket, [](const auto& merge) { return merge->bucket; });
    if (found != merges_.end()) {
      return found->get();
    }
    auto code = support_.merge_code(bucket);
    if (!code) {
      return std::move(code).error();
    }
    LanePart<D>& lead = parts_.back();
    Multidev<D>& runtime = lead.executor.backend().runtime();
    auto merge = std::make_shared<Merge>();
    merge->bucket = bucket;
    merge->device = lead.device;
    auto expected = runtime.expected_merge_nodes(*code);
    if (!expected) {
      return std::move(expected).error();
    }
    merge->expected = *std::move(expected);
    auto& workspace = lead.executor.workspace();
    auto linked = runtime.link_batch(workspace.last, *code);
    if (!linked) {
      return std::move(linked).error();
    }
    workspace.last = linked->first;
    merge->routines = std::move(linked->second);
    merges_.push_back(std::move(merge));
    return merges_.back().get();
  }

  LaneSupport<D>& support_;
  std::size_t stream_;
  std::vector<LanePart<D>> parts_;
  std::vector<std::shared_ptr<Merge>> merges_;
};

}  // namespace kime
