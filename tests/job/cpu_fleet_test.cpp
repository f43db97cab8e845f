// The CPU's devices with memory of their own each, as NUMA nodes have: weights go from device to device.
#include <catch2/catch.hpp>

#include "kime/graph/builder.h"
#include "kime/job/cpu_config.h"
#include "kime/job/device_fleet.h"
#include "tests/support/random_model.h"

namespace kime::test {
namespace {

ModelConfig small_config() {
  ModelConfig config{.vocab = 40, .hidden = 64, .intermediate = 48, .heads = 2, .layers = {{true}, {false}}};
  config.window = 16;
  config.head_layers = 1;
  return config;
}

// What each lane says about one batch.
std::vector<Outputs> score_on_all(Fleet& fleet, const BatchBuffer& buffer) {
  std::vector<Outputs> all;
  for (const auto& lane : fleet.lanes()) {
    lane->host->buffer = buffer;
    Bucket bucket;
    REQUIRE(!lane->score(bucket));
    all.push_back(lane->host->outputs[0]);
  }
  return all;
}

TEST_CASE("devices that share memory read weights in place, others copy them from the first: the same bits") {
  const ModelConfig config = small_config();
  const RandomWeights weights(config, 3);
  const HostTensors tensors = weights.source();
  const ModelToLoad model{&tensors, std::make_shared<const Graph>(build_graph(config)), config.vocab, ModelConfig::types};
  const auto buckets = BucketTable::compiled_in().stage("compat");
  const StageBuckets stage{"compat", {buckets.begin(), buckets.end()}};
  Random random(3);
  BatchBuffer buffer;
  for (int i = 0; i < 6; ++i) {
    push_record(buffer, random, config, 40);
  }
  std::vector<Outputs> want;
  for (const bool share : {true, false}) {
    auto options = runtime_config({.threads = 3, .virtual_cpus = 3, .streams = {StreamStrategy::Kind::number, 2}});
    options.driver.share_memory = share;
    auto fleet = DeviceFleet<CpuDriver>::make(options, {&model, 1}, stage, {});
    REQUIRE(fleet);
    CHECK((*fleet)->devices().size() == 3);
    CHECK((*fleet)->lanes().size() == 6);
    const auto scored = score_on_all(**fleet, buffer);
    if (want.empty()) {
      want = scored;
    }
    for (const auto& each : scored) {
      CHECK(each == want[0]);
    }
    auto& runtime = (*fleet)->runtime();
    CHECK(runtime.calls().of("init_from_host") == 1);
    CHECK(runtime.calls().of("init_from_device") == (share ? 0 : 2));
    const auto info = (*fleet)->debug_info();
    CHECK((info["devices"][0]["weights"] == info["devices"][2]["weights"]) == share);
    CHECK((*fleet)->close());
  }
}

}  // namespace
}  // namespace kime::test
