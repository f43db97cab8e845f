// A model on fake GPUs, through the runtime, executors and lanes, the kernels' own sources doing the work.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kime/graph/builder.h"
#include "kime/job/device_fleet.h"
#include "tests/cuda/driver/rig.h"
#include "tests/cuda/fake/fake_cublaslt.h"
#include "tests/cuda/fake/shim_kernels.h"
#include "tests/support/reference_model.h"

namespace kime::test {

inline ModelConfig gpu_model() {
  ModelConfig config{.vocab = 40, .hidden = 64, .intermediate = 40, .heads = 2, .layers = {{true}, {false}}};
  config.window = 16;
  config.head_layers = 1;
  return config;
}

/// A model on fake GPUs.
class GpuFleet {
 public:
  explicit GpuFleet(FakeCudaConfig gpus, Precision precision = Precision::bf16, std::size_t streams = 2,
                    std::optional<FakeBlasConfig> library = {})
      : count_(gpus.gpus.size()),
        fake(with_shim(std::move(gpus))),
        config_(gpu_model()),
        weights_(config_, 3),
        tensors_(weights_.source()) {
    add_shim_kernels(fake);
    RuntimeConfig<CudaDriver> over;
    over.driver = over_fake();
    over.streams = {StreamStrategy::Kind::number, streams};
    const std::vector<Bucket> buckets = {{64, 16, 32}, {256, 64, 128}, {1024, 256, 512}};
    if (library) {
      blas.emplace(*std::move(library));
      over.driver.blas = &FakeBlas::api();
      over.driver.products = {.workspace_bytes = 4096, .always = {1, 64}};
      over.driver.product_rows = {64, 256, 1024};
    }
    const ModelToLoad model{&tensors_, std::make_shared<const Graph>(build_graph(config_, precision)), config_.vocab, ModelConfig::types};
    auto made = DeviceFleet<CudaDriver>::make(over, {&model, 1}, {"few", buckets}, {});
    if (made) {
      fleet = *std::move(made);
    } else {
      error = made.error().text();
    }
  }
  GpuFleet(const GpuFleet&) = delete;
  GpuFleet& operator=(const GpuFleet&) = delete;
  ~GpuFleet() {
    fake.release();
    fleet.reset();
    if (!faulty) {
      for (std::size_t i = 0; i < count_; ++i) {
        CHECK(fake.used_bytes(i) == 0);
      }
      CHECK(fake.handles() == 0);
      CHECK(fake.host_bytes() == 0);
      CHECK((!blas || blas->objects() == 0));
    }
    CHECK(fake.violations() == std::vector<std::string>());
  }

  [[nodiscard]] BatchBuffer batch(std::uint64_t seed, std::size_t records) const {
    Random random(seed);
    BatchBuffer buffer;
    for (std::size_t i = 0; i < records; ++i) {
      push_record(buffer, random, config_, 60);
    }
    return buffer;
  }
  [[nodiscard]] ReferenceOutputs reference(const BatchBuffer& buffer) const { return reference_model(config_, weights_, buffer.batch()); }

  /// What a lane says of a batch; why not, if it does not.
  static std::string score(Lane& lane, const BatchBuffer& buffer, Outputs& outputs) {
    lane.host->buffer = buffer;
    Bucket bucket;
    if (const auto failure = lane.score(bucket)) {
      return failure->error.text();
    }
    outputs = lane.host->outputs[0];
    return "";
  }

 private:
  std::size_t count_;

 public:
  FakeCuda fake;
  std::optional<FakeBlas> blas;

 private:
  ModelConfig config_;
  RandomWeights weights_;
  HostTensors tensors_;

 public:
  std::unique_ptr<DeviceFleet<CudaDriver>> fleet;
  std::string error;
  bool faulty = false;  ///< A test has made calls fail, so that something may be left.
};

}  // namespace kime::test
