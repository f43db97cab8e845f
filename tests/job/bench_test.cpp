#include "kime/job/bench.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "kime/graph/builder.h"
#include "kime/job/bench_load.h"
#include "kime/job/bench_sweep.h"
#include "kime/job/mixed_fleet.h"
#include "tests/support/random_model.h"

namespace kime::test {
namespace {

TEST_CASE("time is divided among what fits, the longest left out first") {
  const std::vector<double> least{4, 1, 2, 8};
  const auto all = divide_time(least, 19);
  CHECK(all == std::vector<std::optional<double>>{5, 2, 3, 9});
  const auto some = divide_time(least, 4);
  CHECK(some == std::vector<std::optional<double>>{std::nullopt, 1.5, 2.5, std::nullopt});
  CHECK(divide_time(least, 0.5) == std::vector<std::optional<double>>(4));
  CHECK(divide_time({}, 1).empty());
}

TEST_CASE("made-up records are sound and always the same") {
  for (const auto& records : {ticket_records(50, 40), even_records(50, 16, 40)}) {
    for (const Record& record : records) {
      BatchBuffer buffer;
      REQUIRE(buffer.push(record.ids, record.markers, record.qtype));
      CHECK(buffer.batch().check(40, ModelConfig::types));
    }
  }
  CHECK(even_records(3, 16, 40)[2].ids == even_records(3, 16, 40)[2].ids);
  CHECK(even_records(1, 16, 40)[0].ids.size() == 16);
  CHECK(even_records(1, 16, 40)[0].markers == std::vector<std::uint32_t>{1, 4, 8, 12});
}

// A fleet that is profiled.
struct Rig {
  explicit Rig(std::size_t threads) {
    const HostTensors tensors = weights.source();
    const ModelToLoad model{&tensors, graph, config.vocab, ModelConfig::types};
    CpuFleetOptions cpu;
    cpu.threads = threads;
    cpu.profile = profile;
    std::vector<WantedKind> kinds;
    kinds.push_back({.fleet = make_cpu_fleet(cpu, {&model, 1}, stage, {}), .refused = {}});
    auto made = start_fleet(std::move(kinds), false, nullptr);
    REQUIRE(made);
    fleet = *std::move(made);
  }

  ModelConfig config{.vocab = 40, .hidden = 64, .intermediate = 48, .heads = 2, .layers = {{true}, {false}}};
  RandomWeights weights{config, 3};
  std::shared_ptr<const Graph> graph = std::make_shared<const Graph>(build_graph(config));
  std::shared_ptr<cpu::Profile> profile = std::make_shared<cpu::Profile>();
  StageBuckets stage = *choose_stage("", "");
  std::unique_ptr<Fleet> fleet;
};

TEST_CASE("a load counts what its lanes score, and the profile has the time of every op") {
  Rig rig(2);
  Load load(pack_work(even_records(40, 32, 40), *rig.graph, rig.stage, 2));
  static_cast<void>(rig.profile->take());
  const auto stretch = load.run(rig.fleet->lanes(), 0.02);
  REQUIRE(stretch);
  CHECK(stretch->lanes == 2);
  CHECK(stretch->counted.records > 0);
  CHECK(stretch->counted.tokens == 32 * stretch->counted.records);
  CHECK(stretch->counted.flops() > 0);
  CHECK(stretch->seconds() > 0);
  CHECK(stretch->all.records >= stretch->counted.records);
  CHECK(stretch->all.lane_seconds >= stretch->counted.lane_seconds);
  const auto seconds = rig.profile->take();
  REQUIRE(seconds.size() == rig.graph->ops.size());
  for (const double each : seconds) {
    CHECK(each > 0);
  }
  CHECK(std::accumulate(seconds.begin(), seconds.end(), 0.0) <= stretch->all.lane_seconds);
  CHECK(rig.profile->take().empty());
}

TEST_CASE("a benchmark's shares add up, and a sweep measures or says why not") {
  Rig rig(2);
  const BenchRig bench_rig{*rig.fleet, *rig.graph, rig.stage, rig.profile.get(), 2, Precision::f32};
  const auto report = bench(bench_rig, ticket_records(20, 40), 0.2);
  REQUIRE(report);
  double shares = report->outside;
  for (const OpShare& op : report->ops) {
    shares += op.share;
  }
  CHECK(shares == Approx(1));
  CHECK(report->speeds.bytes > 0);
  CHECK(report->share_of_peak == Approx(report->model_flops / report->speeds.flops));
  BenchReport fast = *report;
  fast.tokens_per_second = 1e9;  // so that time is found for each point, however slow the machine is
  const auto swept = sweep(bench_rig, fast, 40, 0.3);
  REQUIRE(swept);
  REQUIRE(swept->latencies.size() == 3);
  CHECK(swept->lengths.size() == 6);
  CHECK(swept->batches.size() == 4);
  CHECK(swept->latencies[0].left_out.empty());
  CHECK(swept->latencies[0].bound > 0);
  const auto none = sweep(bench_rig, *report, 40, 0);
  REQUIRE(none);
  CHECK(!none->batches[3].left_out.empty());
}

}  // namespace
}  // namespace kime::test
