// The table of lib/kime/runtime/README.md: each function of the runtime is reached from `kime score`, or from `kime devices`.
#include <set>

#include "kime/job/devices.h"
#include "tests/job/fake_fleet.h"

namespace kime::test {
namespace {

using Names = std::set<std::string>;

Names reached(const CallCounts& calls) {
  Names names;
  for (std::size_t i = 0; i < std::size(kCallNames); ++i) {
    if (calls.at(i) > 0) {
      names.emplace(kCallNames[i]);
    }
  }
  return names;
}

Names missing(const Names& all, const Names& have) {
  Names names;
  std::ranges::set_difference(all, have, std::inserter(names, names.end()));
  return names;
}

Names all_names() {
  return {std::begin(kCallNames), std::end(kCallNames)};
}

// What `kime score --stats` reaches with so many checkpoints, from the loading to the end.
Names reached_by_a_job(std::vector<std::uint32_t> models) {
  std::random_device seed;
  std::mt19937_64 random(seed());
  const auto records = random_records(random, 60);
  FakeFleetOptions options;
  options.driver = fake_devices(2, true);
  for (auto& device : options.driver.devices) {
    device.per_batch = std::chrono::milliseconds(1);  // so that there is something to wait for
  }
  options.models = std::move(models);
  FakeFleet fleet(options);
  REQUIRE(fleet.made());
  ScoreOptions score = fleet.options();
  score.ensemble = Ensemble::logits;
  const FakeDone done = fleet.score(records, score);
  CHECK(check_job(done, records, fleet.seeds()).empty());
  CHECK(fleet.fleet().debug_info()["devices"].size() == 2);
  CHECK(fleet.fleet().close());
  return reached(fleet.fleet().runtime().calls());
}

TEST_CASE("a job with one checkpoint reaches all but what ensembles and `kime devices` need") {
  CHECK(missing(all_names(), reached_by_a_job({17})) ==
        Names{"device_to_device", "expected_merge_nodes", "is_done", "static_properties", "will_wait_for"});
}

TEST_CASE("an ensemble reaches the merge buffers, and waits for other streams") {
  const Names names = reached_by_a_job({17, 18, 19});  // two of them on one device
  CHECK(names.contains("device_to_device"));
  CHECK(names.contains("expected_merge_nodes"));
  CHECK(names.contains("is_done"));
  CHECK(names.contains("will_wait_for"));
}

TEST_CASE("`kime devices` reaches what tells about devices") {
  auto told = describe_devices({.threads = 2, .virtual_cpus = 2, .streams = {}}, true);
  REQUIRE(told);
  for (const char* name : {"is_initialized", "initialize", "static_properties", "hardware_limits", "get_device", "make_device",
                           "suggested_num_virtual_devices", "get_debug_info", "get_global_debug_info"}) {
    CAPTURE(name);
    CHECK((*told)["debug"]["calls"][name].get<int>() > 0);
  }
  for (const char* name : {"new_virtual_device", "alloc_pool"}) {
    CAPTURE(name);
    CHECK((*told)["debug"]["calls"][name].get<int>() == 0);  // telling starts nothing
  }
}

}  // namespace
}  // namespace kime::test
