// A runtime over fake devices with a small model, and what tests say about it.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kime/batch/batch.h"
#include "kime/runtime/multidev.h"
#include "tests/support/fake_driver.h"
#include "tests/support/results.h"

namespace kime::test {

/// Why a result is not there; "" where it is.
template <class T>
std::string why(const Result<T>& result) {
  return result ? "" : result.error().text();
}
using Catch::Matchers::Contains;

/// A door that tasks wait before. The test waits for them before it ends.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    moved_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    moved_.notify_all();
    moved_.wait(lock, [this] { return open_; });
    --waiting_;
  }
  /// Waits until someone stands before it.
  void await_someone() {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  bool open_ = false;
  int waiting_ = 0;
};

/// A checkpoint of one tensor.
class FakeCheckpoint {
 public:
  explicit FakeCheckpoint(std::uint32_t seed)
      : value_(seed), tensors_{HostTensor{DType::f32, shape_, std::as_bytes(std::span(&value_, 1))}} {}
  FakeCheckpoint(const FakeCheckpoint&) = delete;
  FakeCheckpoint& operator=(const FakeCheckpoint&) = delete;
  [[nodiscard]] HostTensors source() const { return HostTensors(tensors_); }
  [[nodiscard]] std::uint64_t seed() const { return get(fake_seed(source())); }

 private:
  std::uint32_t value_;
  std::array<std::size_t, 1> shape_{1};
  std::array<HostTensor, 1> tensors_;
};

/// Declare it before what uses its runtime. When it ends, all devices are empty and no rule was broken.
class Rig {
 public:
  using Runtime = Multidev<FakeDriver>;
  static constexpr Bucket kBucket{64, 8, 32};

  explicit Rig(FakeDriver::Config config, StreamStrategy streams = {}) : config_{std::move(config), streams} {
    ok(runtime.initialize(config_));
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  ~Rig() {
    faults().release(true);
    runtime.unsafe_cleanup();
    CHECK(ledger().wait_empty());
    CHECK(ledger().violations() == std::vector<std::string>());
  }

  [[nodiscard]] FakeFaults& faults() const { return *config_.driver.faults; }
  [[nodiscard]] FakeLedger& ledger() const { return *config_.driver.ledger; }
  [[nodiscard]] const RuntimeConfig<FakeDriver>& config() const { return config_; }

  [[nodiscard]] Device device(std::size_t ordinal = 0) { return get(runtime.get_device(ordinal)); }
  [[nodiscard]] Stream stream(std::size_t ordinal = 0) { return get(runtime.new_virtual_device(device(ordinal))); }
  [[nodiscard]] Model<FakeDriver> model(const FakeCheckpoint& checkpoint) {
    return get(runtime.model(std::make_shared<const Graph>(), checkpoint.source()));
  }
  /// A context with weights on a device, read through `stream`.
  [[nodiscard]] Context root(const FakeCheckpoint& checkpoint, const Stream& stream) {
    Context context = get(runtime.make_context(Device{stream.life, stream.ordinal}));
    ok(runtime.init_from_host(context, stream, model(checkpoint), checkpoint.source()));
    return context;
  }
  [[nodiscard]] Code<FakeDriver> code(const FakeCheckpoint& checkpoint, const Bucket& bucket = kBucket) {
    return get(runtime.compile(GraphSource<FakeDriver>{model(checkpoint), bucket}, "code"));
  }
  [[nodiscard]] Context child(const Context& parent, const Stream& stream) {
    return get(runtime.make_child(parent, {.device = Device{stream.life, stream.ordinal}, .stream = stream, .options = {}, .merge = {}}));
  }

  Runtime runtime;

 private:
  RuntimeConfig<FakeDriver> config_;
};

/// A checkpoint's routine on a stream of its own.
struct Lane {
  Lane(Rig& rig, const FakeCheckpoint& checkpoint, std::size_t ordinal)
      : stream(rig.stream(ordinal)),
        root(rig.root(checkpoint, stream)),
        context(rig.child(root, stream)),
        routine(get(rig.runtime.link(context, rig.code(checkpoint)))) {}
  Stream stream;
  Context root;
  Context context;
  Routine<FakeDriver> routine;
};

inline Deadline in(int milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

/// A batch and room for its scores: copies in, a run and copies out at a time.
class Work {
 public:
  explicit Work(std::uint32_t first_id, std::size_t seqs = 3, const Bucket& bucket = Rig::kBucket) : bucket_(bucket) {
    for (std::uint32_t s = 0; s < seqs; ++s) {
      const std::array<std::uint32_t, 4> ids{first_id, first_id + s, 7, 9};
      const std::array<std::uint32_t, 2> markers{1, 3};
      ok(buffer_.push(ids, markers, static_cast<std::uint8_t>(s % 3)));
    }
    const Batch batch = buffer_.batch();
    logits.resize(batch.markers.size());
    act.resize(batch.seqs());
    const BatchLayout in(bucket);
    reads_ = {HostRead{in.ids, batch.ids.data(), batch.ids.size_bytes()}, HostRead{in.cu, batch.cu.data(), batch.cu.size_bytes()},
              HostRead{in.markers, batch.markers.data(), batch.markers.size_bytes()},
              HostRead{in.mcu, batch.mcu.data(), batch.mcu.size_bytes()}, HostRead{in.qtype, batch.qtype.data(), batch.qtype.size_bytes()}};
    const ScoreLayout out(bucket);
    writes_ = {HostWrite{out.logits, logits.data(), logits.size() * sizeof(float)},
               HostWrite{out.act, act.data(), act.size() * sizeof(act[0])}};
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  [[nodiscard]] Launch launch() const {
    const Batch batch = buffer_.batch();
    return {.counts = {batch.ids.size(), batch.seqs(), batch.markers.size()}, .slot = 0};
  }
  Status bring(Rig::Runtime& runtime, const Context& context) const {
    auto copied = runtime.from_host(context, Node::inputs, reads_);
    return !copied ? Status(copied.error()) : *copied ? Status() : Error(ErrorKind::device, "no inputs");
  }
  Status fetch(Rig::Runtime& runtime, const Context& context) const {
    auto copied = runtime.to_host(context, Node::outputs, writes_);
    return !copied ? Status(copied.error()) : *copied ? Status() : Error(ErrorKind::device, "no outputs");
  }
  Status schedule(Rig::Runtime& runtime, const Routine<FakeDriver>& routine) const {
    if (auto done = bring(runtime, routine.context); !done) {
      return done;
    }
    if (auto done = runtime.launch(routine, launch()); !done) {
      return done;
    }
    return fetch(runtime, routine.context);
  }
  /// Whether the scores are those of a checkpoint.
  [[nodiscard]] bool right(std::uint64_t seed) const {
    const Batch batch = buffer_.batch();
    for (std::size_t s = 0; s < batch.seqs(); ++s) {
      const FakeScores scores = expected_fake_scores(seed, batch.ids.subspan(batch.cu[s], batch.cu[s + 1] - batch.cu[s]),
                                                     batch.markers.subspan(batch.mcu[s], batch.mcu[s + 1] - batch.mcu[s]), batch.qtype[s]);
      if (act[s] != scores.act || !std::equal(scores.logits.begin(), scores.logits.end(), logits.begin() + batch.mcu[s])) {
        return false;
      }
    }
    return true;
  }
  void forget() {
    std::fill(logits.begin(), logits.end(), -99.0F);
    std::fill(act.begin(), act.end(), std::array<float, 2>{-99.0F, -99.0F});
  }

  std::vector<float> logits;
  std::vector<std::array<float, 2>> act;

 private:
  Bucket bucket_;
  BatchBuffer buffer_;
  std::array<HostRead, 5> reads_;
  std::array<HostWrite, 2> writes_;
};

inline FakeDriver::Config fake(std::size_t devices, bool async) {
  FakeDriver::Config config;
  config.devices.assign(devices, {});
  for (std::size_t i = 0; i < devices; ++i) {
    config.devices[i].space = i;
  }
  config.async = async;
  return config;
}

}  // namespace kime::test
