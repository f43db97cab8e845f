// One stream of one CPU device, through the runtime.
#pragma once

#include <catch2/catch.hpp>
#include <memory>

#include "kime/backend/cpu/cpu_driver.h"
#include "kime/engine/device_backend.h"
#include "kime/engine/executor.h"
#include "kime/graph/builder.h"

namespace kime::test {

/// A runtime with a device of so many threads; outlives the programs that it makes.
class CpuStream {
 public:
  using Backend = DeviceBackend<CpuDriver>;

  explicit CpuStream(std::size_t threads) {
    RuntimeConfig<CpuDriver> config;
    config.driver.threads = threads;
    config.driver.virtual_cpus = 1;
    REQUIRE(runtime_.initialize(config));
    auto device = runtime_.get_device(0);
    REQUIRE(device);
    auto stream = runtime_.new_virtual_device(*device);
    REQUIRE(stream);
    backend_ = std::make_shared<const Backend>(runtime_, *stream, *runtime_.caps(*device), std::chrono::duration<double>(0));
  }

  Result<Program<Backend>> program(const TensorSource& tensors, const ModelConfig& config, Precision precision = Precision::f32) {
    auto graph = std::make_shared<const Graph>(build_graph(config, precision));
    auto weights = backend_->upload(tensors, *graph);
    if (!weights) {
      return std::move(weights).error();
    }
    return Program<Backend>{backend_, graph, std::make_shared<const Backend::Weights>(*std::move(weights)), config.vocab,
                            ModelConfig::types};
  }

 private:
  Multidev<CpuDriver> runtime_;
  std::shared_ptr<const Backend> backend_;
};

}  // namespace kime::test
