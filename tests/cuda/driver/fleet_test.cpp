// Whole models on fake GPUs, through the runtime, executors and lanes: against the float64 reference; the same bits on every device and
// stream, in every company, with graphs and without; failures of every call.
#include <thread>

#include "tests/cuda/driver/gpu_fleet.h"

namespace kime::test {

TEST_CASE("fleet: fake GPUs score as the float64 reference, with the same bits on every device and stream") {
  for (const bool peers : {true, false}) {
    FakeCudaConfig config = gpus(2);
    config.peers = peers;
    for (const Precision precision : {Precision::f32, Precision::f16, Precision::bf16}) {
      CAPTURE(peers, name_of(precision));
      GpuFleet over(config, precision);
      REQUIRE(over.error.empty());
      REQUIRE(over.fleet->lanes().size() == 4);
      const BatchBuffer buffer = over.batch(1, 5);
      std::vector<Outputs> all(4);
      for (std::size_t i = 0; i < 4; ++i) {
        REQUIRE(GpuFleet::score(*over.fleet->lanes()[i], buffer, all[i]).empty());
        CHECK(all[i] == all[0]);
      }
      CHECK(distance(all[0], over.reference(buffer)) < (precision == Precision::f32 ? 100 * kUnit : 0.03));
    }
  }
}

TEST_CASE("fleet: lanes at work at the same time, on graphs that are replayed") {
  GpuFleet over(gpus(2));
  REQUIRE(over.error.empty());
  const auto lanes = over.fleet->lanes();
  const BatchBuffer buffers[] = {over.batch(1, 3), over.batch(2, 2), over.batch(3, 3)};
  Outputs want[3];
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(GpuFleet::score(*lanes[0], buffers[i], want[i]).empty());
  }
  const std::size_t captured = over.fake.calls("cuStreamBeginCapture");
  std::vector<std::string> wrong(lanes.size());
  std::vector<std::thread> threads;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    threads.emplace_back([&, lane] {
      for (std::size_t i = 0; i < 6; ++i) {
        Outputs got;
        wrong[lane] += GpuFleet::score(*lanes[lane], buffers[(i + lane) % 3], got);
        wrong[lane] += got == want[(i + lane) % 3] ? "" : "other bits";
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<std::string>(lanes.size()));
  // One graph for each stream and bucket: the buckets of the three batches are few.
  CHECK(captured >= 1);
  CHECK(over.fake.calls("cuStreamBeginCapture") <= 3 * lanes.size());
  CHECK(over.fake.calls("cuGraphLaunch") == 3 + 6 * lanes.size());
}

TEST_CASE("fleet: where memory for graphs is short the oldest go, and without any the kernels are launched one by one") {
  Outputs want;
  {
    GpuFleet over(gpus(1), Precision::bf16, 1);
    REQUIRE(over.error.empty());
    REQUIRE(GpuFleet::score(*over.fleet->lanes()[0], over.batch(1, 4), want).empty());
  }
  FakeCudaConfig config = gpus(1);
  const auto graphs = [](GpuFleet& over) { return over.fleet->debug_info()["devices"][0]["graphs"]; };
  config.graph_bytes = config.gpus[0].memory_bytes;  // none fits beside anything
  Outputs got;
  {
    GpuFleet over(config, Precision::bf16, 1);
    REQUIRE(over.error.empty());
    REQUIRE(GpuFleet::score(*over.fleet->lanes()[0], over.batch(1, 4), got).empty());
    CHECK(got == want);
    CHECK(over.fake.calls("cuGraphLaunch") == 0);
    CHECK(graphs(over)["kept"] == 0);
  }
  config.graph_bytes = config.gpus[0].memory_bytes / 3;  // two fit
  GpuFleet over(config, Precision::bf16, 1);
  REQUIRE(over.error.empty());
  for (const std::size_t records : {4U, 1U, 20U, 4U}) {  // three buckets, then the first again
    REQUIRE(GpuFleet::score(*over.fleet->lanes()[0], over.batch(1, records), got).empty());
  }
  CHECK(got == want);
  CHECK(over.fake.calls("cuGraphInstantiateWithFlags") >= 4);
  CHECK(graphs(over)["kept"] == 2);
  CHECK(graphs(over)["evicted"] == 2);
}

TEST_CASE("fleet: every call that fails is an error of its own, and no wrong score") {
  Outputs want;
  for (const auto* function :
       {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuStreamBeginCapture", "cuStreamEndCapture", "cuLaunchKernel",
        "cuGraphInstantiateWithFlags", "cuGraphUpload", "cuGraphLaunch", "cuMemAlloc", "cuMemHostAlloc", "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync", "cuEventSynchronize", "cuStreamSynchronize", "cuStreamCreate", "cuEventCreate", "cuEventRecord"}) {
    for (const Code code : {Code::invalid_value, Code::out_of_memory, Code::illegal_address}) {
      for (const std::size_t nth : {std::size_t{1}, std::size_t{2}}) {
        INFO(function << " " << nth << " " << static_cast<unsigned>(code));
        GpuFleet over(gpus(1), Precision::bf16, 1);
        REQUIRE(over.error.empty());
        const BatchBuffer buffer = over.batch(1, 1);
        if (want.logits.empty()) {
          REQUIRE(GpuFleet::score(*over.fleet->lanes()[0], buffer, want).empty());
        }
        over.faulty = true;
        const std::size_t before = over.fake.calls(function);
        over.fake.fail(function, nth, code);
        Outputs got;
        const std::string failure = GpuFleet::score(*over.fleet->lanes()[0], buffer, got);
        if (failure.empty()) {
          CHECK(got == want);
          CHECK((over.fake.calls(function) - before < nth || code == Code::out_of_memory));
        } else {
          CHECK_THAT(failure, Contains("CUDA_ERROR_"));
        }
      }
    }
  }
}

TEST_CASE("fleet: a launch that fails late loses its device alone") {
  GpuFleet over(gpus(2), Precision::bf16, 1);
  REQUIRE(over.error.empty());
  over.faulty = true;
  const BatchBuffer buffer = over.batch(1, 2);
  over.fake.fail_late("cuGraphLaunch", 1, Code::illegal_address);
  Outputs got;
  CHECK_THAT(GpuFleet::score(*over.fleet->lanes()[0], buffer, got), Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK(GpuFleet::score(*over.fleet->lanes()[1], buffer, got).empty());
  CHECK(distance(got, over.reference(buffer)) < 0.03);
}

}  // namespace kime::test
