// A fleet of one kind of device.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kime/batch/packer.h"
#include "kime/job/device_check.h"
#include "kime/job/device_class.h"
#include "kime/job/device_lane.h"
#include "kime/job/fleet.h"
#include "kime/job/late_weights.h"

namespace kime {

/// Tokens of a batch that a device of this kind is best at: a core's caches, or enough to fill a GPU.
[[nodiscard]] constexpr std::size_t best_batch(const Caps& caps) {
  constexpr std::size_t kGraphs = 8192;
  return caps.graphs ? kGraphs : CostModel{}.target;
}

template <Driver D>
class DeviceFleet final : public KindFleet, public LaneSupport<D> {
 public:
  using Backend = DeviceBackend<D>;

  DeviceFleet(RuntimeConfig<D> config, std::span<const ModelToLoad> models, StageBuckets stage, FleetOptions options)
      : config_(std::move(config)), models_(models.begin(), models.end()), stage_(std::move(stage)), options_(std::move(options)) {}

  /// All the devices that the options name, started. Errors: those of find() and start().
  static Result<std::unique_ptr<DeviceFleet>> make(RuntimeConfig<D> config, std::span<const ModelToLoad> models, StageBuckets stage,
                                                   FleetOptions options) {
    auto fleet = std::make_unique<DeviceFleet>(std::move(config), models, std::move(stage), std::move(options));
    auto found = fleet->find();
    if (!found) {
      return std::move(found).error();
    }
    std::vector<std::size_t> ordinals;
    for (const auto& device : *found) {
      ordinals.push_back(device.ordinal);
    }
    if (auto started = fleet->start(ordinals, 0); !started) {
      return std::move(started).error();
    }
    return fleet;
  }

  ~DeviceFleet() override { static_cast<void>(close()); }
  DeviceFleet(const DeviceFleet&) = delete;
  DeviceFleet& operator=(const DeviceFleet&) = delete;

  /// Frees everything on all devices and ends the runtime; again: nothing. Nothing else may be under way. Errors: the first that there
  /// was, and memory that is still in use then on a device that works; it is freed with the runtime.
  Status close() {
    Status all;
    const auto keep_first = [&all](Status status) {
      if (all && !status) {
        all = std::move(status);
      }
    };
    for (auto& lane : device_lanes_) {
      keep_first(lane->close());
    }
    if (wider_) {
      wider_->release(keep_first);
    }
    for (std::size_t device = weights_.size(); device-- > 0;) {
      for (std::size_t model = 0; model < weights_[device].size(); ++model) {
        keep_first(streams_[device][0]->release(*weights_[device][model]));
      }
    }
    for (const auto& device : runtime_devices_) {
      auto idle = runtime_.is_idle(device);
      if (idle && !*idle) {
        continue;  // it hangs
      }
      keep_first(runtime_.await(device));
      if (auto used = runtime_.get_used_memory(device); used && *used > 0) {
        keep_first(Error(ErrorKind::device, std::to_string(*used) + " bytes are still in use"));
      }
    }
    lanes_.clear();
    device_lanes_.clear();
    weights_.clear();
    wider_.reset();
    runtime_devices_.clear();
    runtime_.unsafe_cleanup();
    return all;
  }

  [[nodiscard]] std::string_view kind() const override { return Multidev<D>::name(); }
  [[nodiscard]] std::size_t models() const override { return models_.size(); }

  Result<std::vector<ClassedDevice>> find() override {
    if (auto ready = runtime_.initialize(config_); !ready) {
      return std::move(ready).error();
    }
    if (options_.observe) {
      runtime_.observe([observe = options_.observe](std::size_t ordinal, std::size_t stream, const TaskSpan& span) {
        observe(std::string(Multidev<D>::name()) + ":" + std::to_string(ordinal) + "." + std::to_string(stream), span);
      });
    }
    return wanted_devices();
  }

  Status start(std::span<const std::size_t> ordinals, std::size_t first) override {
    first_ = first;
    make_wider();
    Status last = Error(ErrorKind::device, "there is no device");
    for (const std::size_t ordinal : ordinals) {
      last = add_device(ordinal);
      if (!last && last.error().kind() != ErrorKind::device) {
        return last;  // the checkpoint cannot be run or read: no other device will do better
      }
      if (!last && options_.notice && ordinals.size() > 1) {
        options_.notice(std::string(Multidev<D>::name()) + ":" + std::to_string(ordinal) + " is left out: " + last.error().text());
      }
    }
    if (devices_.empty()) {
      return last;
    }
    return make_lanes();
  }

  Status prepare(std::span<const Bucket> wanted) override {
    for (const auto& code : codes_) {
      if (auto prepared = code->prepare(stage_.buckets, wanted); !prepared) {
        return prepared;
      }
    }
    return {};
  }

  [[nodiscard]] nlohmann::json debug_info() override {
    nlohmann::json info = runtime_.get_global_debug_info();
    auto devices = nlohmann::json::array();
    for (std::size_t device = 0; device < runtime_devices_.size(); ++device) {
      devices.push_back(debug_info_of(device));
    }
    info["devices"] = std::move(devices);
    return info;
  }

  [[nodiscard]] bool hangs() const override { return hangs_; }
  [[nodiscard]] Multidev<D>& runtime() { return runtime_; }

 private:
  nlohmann::json debug_info_of(std::size_t device) {
    const Device& handle = runtime_devices_[device];
    auto about = runtime_.get_debug_info(handle);
    nlohmann::json info = about ? *about : nlohmann::json(about.error().text());
    if (auto ordinal = runtime_.to_ordinal(handle)) {
      info["ordinal"] = *ordinal;
    }
    if (auto used = runtime_.get_used_memory(handle)) {
      info["used_bytes"] = *used;
    }
    for (const auto& weights : weights_[device]) {
      if (auto buffer = runtime_.get_buffer(weights->root, Node::weights); buffer && *buffer) {
        info["weights"].push_back(runtime_.describe(**buffer));  // another device's where they are shared
      }
    }
    for (const auto& stream : streams_[device]) {
      if (auto subordinal = runtime_.to_subordinal(stream->stream())) {
        info["streams"][*subordinal].update(runtime_.describe(stream->stream()));
      }
    }
    return info;
  }

  Result<std::vector<ClassedDevice>> wanted_devices() {
    auto count = runtime_.num_devices();
    if (!count) {
      return std::move(count).error();
    }
    std::vector<std::size_t> ordinals = options_.ordinals;
    for (std::size_t i = 0; options_.ordinals.empty() && i < *count; ++i) {
      ordinals.push_back(i);
    }
    std::vector<ClassedDevice> classed;
    for (const std::size_t ordinal : ordinals) {
      if (ordinal >= *count) {
        const auto name = Multidev<D>::name();
        const std::string there = *count == 1 ? fmt::format("is only {}:0", name) : fmt::format("are {0}:0 to {0}:{1}", name, *count - 1);
        return Error(ErrorKind::input, fmt::format("--devices {}:{}: there {}", name, ordinal, there));
      }
      auto device = runtime_.get_device(ordinal);
      auto known = device ? runtime_.properties(*device) : std::move(device).error();
      if (!known) {
        return std::move(known).error();
      }
      classed.push_back({ordinal, known->bits_class, known->speed_hint});
    }
    return classed;
  }

  void make_wider() {
    std::vector<typename LateWeights<D>::Source> sources;
    for (const ModelToLoad& model : models_) {
      sources.push_back({model.tensors, model.wider});
    }
    wider_ = std::make_unique<LateWeights<D>>(runtime_, std::move(sources));
  }

  // A device with its streams and its weights, or nothing of it.
  Status add_device(std::size_t ordinal) {
    auto device = runtime_.get_device(ordinal);
    if (!device) {
      return std::move(device).error();
    }
    auto name = runtime_.get_name(*device);
    auto known = runtime_.properties(*device);
    auto caps = runtime_.caps(*device);
    auto streams = runtime_.suggested_num_virtual_devices(*device);
    if (!name || !known || !caps || !streams) {
      return Error(ErrorKind::device, "a device cannot be asked about");
    }
    auto started = start_streams(*device, *caps, *streams);
    if (!started) {
      streams_.resize(devices_.size());
      weights_.resize(devices_.size());
      static_cast<void>(runtime_.retire(*device, started.error()));
      return started;
    }
    runtime_devices_.push_back(*device);
    wider_->add_device(*device, *caps);
    devices_.push_back({*name, known->bits_class, *streams, best_batch(*caps), caps->padded_products, options_.precision});
    return {};
  }

  Status start_streams(const Device& device, const Caps& caps, std::size_t count) {
    auto& streams = streams_.emplace_back();
    auto& weights = weights_.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      auto stream = runtime_.new_virtual_device(device);
      if (!stream) {
        return Error(stream.error().kind(),
                     "stream " + std::to_string(i + 1) + " of " + std::to_string(count) + ": " + stream.error().message());
      }
      streams.push_back(std::make_shared<const Backend>(runtime_, *std::move(stream), caps, options_.timeout));
    }
    if (auto works = DeviceCheck<D>(runtime_, device, streams[0]->stream(), options_.timeout).run(); !works) {
      return works;
    }
    for (std::size_t model = 0; model < models_.size(); ++model) {
      auto loaded = load(*streams[0], model);
      if (!loaded) {
        return std::move(loaded).error();
      }
      weights.push_back(std::make_shared<const typename Backend::Weights>(*std::move(loaded)));
    }
    return {};
  }

  // Read from the host by the first device, taken from there by the others; from the host again only where no device can give them.
  Result<typename Backend::Weights> load(const Backend& backend, std::size_t model) {
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      if (auto shared = backend.share(*weights_[device][model])) {
        return shared;
      }
    }
    if (codes_.size() == model) {
      auto made = runtime_.model(models_[model].graph, *models_[model].tensors);
      if (!made) {
        return std::move(made).error();
      }
      codes_.push_back(std::make_shared<CodeCache<D>>(runtime_, *std::move(made)));
    }
    return backend.upload(*models_[model].tensors, codes_[model]);
  }

  // A lane for each stream; of an ensemble, the lane's checkpoints go to that device and the ones after it.
  Status make_lanes() {
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      for (std::size_t stream = 0; stream < devices_[device].streams; ++stream) {
        std::vector<LanePart<D>> parts;
        for (std::size_t model = 0; model < models_.size(); ++model) {
          auto part = make_part((device + model) % devices_.size(), stream, model);
          if (!part) {
            return std::move(part).error();
          }
          parts.push_back(*std::move(part));
        }
        device_lanes_.push_back(std::make_shared<DeviceLane<D>>(*this, stream, std::move(parts)));
        lanes_.push_back(device_lanes_.back());
      }
    }
    return {};
  }

  Result<LanePart<D>> make_part(std::size_t device, std::size_t stream, std::size_t model) override {
    return part_of(device, stream, models_[model], models_[model].graph, weights_[device][model]);
  }

  [[nodiscard]] bool has_wider(std::size_t model) const override { return models_[model].wider != nullptr; }

  Result<LanePart<D>> make_wider_part(std::size_t device, std::size_t stream, std::size_t model) override {
    auto weights = wider_->get(device, model);
    if (!weights) {
      return std::move(weights).error();
    }
    return part_of(device, stream, models_[model], models_[model].wider, *std::move(weights));
  }

  Result<LanePart<D>> part_of(std::size_t device, std::size_t stream, const ModelToLoad& model, const std::shared_ptr<const Graph>& graph,
                              std::shared_ptr<const typename Backend::Weights> weights) {
    const auto& streams = streams_[device];
    Program<Backend> program{streams[stream % streams.size()], graph, std::move(weights), model.vocab, model.types};
    auto executor = Executor<Backend>::make(std::move(program), stage_.stage, stage_.buckets);
    if (!executor) {
      return std::move(executor).error();
    }
    return LanePart<D>{device, *std::move(executor)};
  }

  [[nodiscard]] std::size_t first_device() const override { return first_; }
  [[nodiscard]] std::size_t device_count() const override { return devices_.size(); }

  bool lost(std::size_t device, const Error& failure) override {
    auto why = runtime_.lost(runtime_devices_[device]);
    if (why && !*why) {
      return false;
    }
    static_cast<void>(runtime_.retire(runtime_devices_[device], failure));  // also where it died by itself
    if (auto idle = runtime_.is_idle(runtime_devices_[device]); !idle || !*idle) {
      hangs_ = true;
    }
    return true;
  }

  void set_aside(std::size_t device, std::shared_ptr<void> what) override {
    static_cast<void>(runtime_.set_aside(runtime_devices_[device], std::move(what)));
  }

  Result<CodeBatch<D>> merge_code(const Bucket& bucket) override {
    const std::size_t sources = models_.size();
    return runtime_.compile_batch(
        {MergeSource{bucket, sources, {Node::outputs, MergeUse::copy}}, MergeSource{bucket, sources, {Node::outputs, MergeUse::streaming}}},
        {"merge by copy", "merge by streaming"});
  }

  RuntimeConfig<D> config_;
  std::vector<ModelToLoad> models_;
  StageBuckets stage_;
  FleetOptions options_;
  std::size_t first_ = 0;
  Multidev<D> runtime_;
  std::vector<Device> runtime_devices_;
  std::vector<std::shared_ptr<CodeCache<D>>> codes_;                                    ///< By checkpoint.
  std::vector<std::vector<std::shared_ptr<const Backend>>> streams_;                    ///< By device.
  std::vector<std::vector<std::shared_ptr<const typename Backend::Weights>>> weights_;  ///< By device and checkpoint.
  std::unique_ptr<LateWeights<D>> wider_;
  std::vector<std::shared_ptr<DeviceLane<D>>> device_lanes_;  ///< What lanes() shows.
  std::atomic<bool> hangs_{false};
};

}  // namespace kime
