// A lane over streams of one kind of device.
#pragma once

#include <algorithm>
#include <cmath>
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
  std::size_t device = 0;
  Executor<DeviceBackend<D>> executor;
};

/// What lanes ask of their fleet.
template <Driver D>
class LaneSupport {
 public:
  virtual ~LaneSupport() = default;
  /// Its devices are numbered from here on in the fleet that it is part of; here and below they are numbered from 0.
  [[nodiscard]] virtual std::size_t first_device() const = 0;
  [[nodiscard]] virtual std::size_t device_count() const = 0;
  /// A new part for checkpoint `model` on a device.
  virtual Result<LanePart<D>> make_part(std::size_t device, std::size_t stream, std::size_t model) = 0;
  /// The same in a precision of a wider range, where the checkpoint has one.
  [[nodiscard]] virtual bool has_wider(std::size_t model) const = 0;
  virtual Result<LanePart<D>> make_wider_part(std::size_t device, std::size_t stream, std::size_t model) = 0;
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
      : support_(support), stream_(stream), parts_(std::move(parts)), rescues_(parts_.size()) {}

  [[nodiscard]] std::vector<std::size_t> devices() const override {
    std::vector<std::size_t> devices;
    for (const auto& part : parts_) {
      devices.push_back(support_.first_device() + part.device);
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
    LaneHost& host = *this->host;
    host.outputs.resize(parts_.size());
    host.unscored.clear();
    host.rescued = 0;
    const Batch batch = host.buffer.batch();
    if (auto failed = parts_.size() > 1 ? score_all(batch, host.outputs, used) : score_one(batch, host.outputs[0], used)) {
      return failed;
    }
    return rescue(batch);
  }

  /// Frees what its streams hold for it. Errors: the first that there was; the rest is freed all the same.
  Status close() {
    Status all;
    const auto free = [&all](LanePart<D>& part) {
      if (auto freed = part.executor.backend().release(part.executor.workspace()); !freed && all) {
        all = std::move(freed);
      }
    };
    for (auto& part : parts_) {
      free(part);
    }
    for (auto& rescue : rescues_) {
      if (rescue) {
        free(rescue->part);
      }
    }
    return all;
  }

  bool repair(std::span<const char> all_retired) override {
    if (parts_.size() == 1) {
      return false;
    }
    const auto retired = all_retired.subspan(support_.first_device(), support_.device_count());
    for (auto& rescue : rescues_) {
      if (rescue && retired[rescue->part.device] != 0) {
        const std::size_t device = rescue->part.device;
        support_.set_aside(device, std::move(rescue));
      }
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

  /// What scores a record once more, by itself. Copies point into it.
  struct Rescue {
    LanePart<D> part;
    BatchBuffer record;
    Outputs outputs;
  };

  LaneFailure failure(const LanePart<D>& part, Error error) {
    const bool lost = support_.lost(part.device, error);
    if (lost) {
      support_.set_aside(part.device, this->shared_from_this());
      support_.set_aside(part.device, std::exchange(this->host, std::make_shared<LaneHost>()));
    }
    return {std::move(error), support_.first_device() + part.device, lost};
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

  std::optional<LaneFailure> score_one(const Batch& batch, Outputs& outputs, Bucket& used) {
    auto ran = parts_[0].executor.run(batch, outputs);
    if (!ran) {
      return failure(parts_[0], std::move(ran).error());
    }
    used = *ran;
    return std::nullopt;
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

  // What a checkpoint says of a record is taken from a precision of a wider range where it is no finite number, for each checkpoint by
  // itself: whether, and what comes of it, depends on nothing but the record and that checkpoint.
  std::optional<LaneFailure> rescue(const Batch& batch) {
    for (std::size_t s = 0; s < batch.seqs(); ++s) {
      for (std::size_t model = 0; model < parts_.size(); ++model) {
        if (!support_.has_wider(model) || all_finite(batch, s, this->host->outputs[model])) {
          continue;
        }
        if (auto failed = rescue(batch, s, model)) {
          return failed;
        }
        if (!this->host->unscored.empty() && this->host->unscored.back().sequence == s) {
          break;
        }
      }
    }
    return std::nullopt;
  }

  static bool all_finite(const Batch& batch, std::size_t s, const Outputs& outputs) {
    const auto finite = [](float score) { return std::isfinite(score); };
    return std::ranges::all_of(outputs.act[s], finite) &&
           std::all_of(outputs.logits.begin() + batch.mcu[s], outputs.logits.begin() + batch.mcu[s + 1], finite);
  }

  // What cannot be made ready, for want of memory, is this record's error: others need none of it. What then fails in the run is the
  // batch's, as everywhere.
  std::optional<LaneFailure> rescue(const Batch& batch, std::size_t s, std::size_t model) {
    const auto cannot = [&](const Error& why) -> std::optional<LaneFailure> {
      auto failed = failure(parts_[model], why);
      if (failed.lost) {
        return failed;
      }
      this->host->unscored.push_back(
          {s, Error(ErrorKind::device, "its scores are no finite numbers, and a wider precision cannot be had: " + why.message())});
      return std::nullopt;
    };
    auto& made = rescues_[model];
    if (!made) {
      auto part = support_.make_wider_part(parts_[model].device, stream_, model);
      if (!part) {
        return cannot(part.error());
      }
      made = std::make_shared<Rescue>(Rescue{*std::move(part), {}, {}});
    }
    made->record.clear();
    const auto ids = batch.ids.subspan(batch.cu[s], batch.cu[s + 1] - batch.cu[s]);
    const auto markers = batch.markers.subspan(batch.mcu[s], batch.mcu[s + 1] - batch.mcu[s]);
    if (auto pushed = made->record.push(ids, markers, batch.qtype[s]); !pushed) {
      return cannot(pushed.error());
    }
    const Batch alone = made->record.batch();
    Bucket bucket;
    auto plan = made->part.executor.plan(alone, bucket);
    if (!plan) {
      return cannot(plan.error());
    }
    if (auto ran = made->part.executor.backend().run(**plan, alone, made->outputs); !ran) {
      return failure(made->part, std::move(ran).error());
    }
    Outputs& outputs = this->host->outputs[model];
    std::ranges::copy(made->outputs.logits, outputs.logits.begin() + batch.mcu[s]);
    outputs.act[s] = made->outputs.act[0];
    ++this->host->rescued;
    return std::nullopt;
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
  std::vector<std::shared_ptr<Rescue>> rescues_;  ///< By checkpoint; made when first needed.
};

}  // namespace kime
