// Fleets of several kinds of device: who takes part, and whole jobs over them.
#include "kime/job/mixed_fleet.h"

#include "tests/job/fake_fleet.h"

namespace {

using namespace kime;        // NOLINT(google-build-using-namespace): tests of it
using namespace kime::test;  // NOLINT(google-build-using-namespace)
using Catch::Matchers::Contains;

// A second kind.
class FastDriver : public FakeDriver {
 public:
  static constexpr std::string_view kName = "fast";
  using FakeDriver::FakeDriver;
  static Result<std::unique_ptr<FastDriver>> open(const Config& config) {
    ++config.ledger->opens;
    if (!config.no_open.empty()) {
      return Error(ErrorKind::device, config.no_open);
    }
    return std::make_unique<FastDriver>(config);
  }
};
static_assert(Driver<FastDriver>);

FakeDriver::Config devices_of_class(std::size_t count, const std::string& bits_class) {
  FakeDriver::Config config = fake_devices(count, true);
  for (auto& device : config.devices) {
    device.bits_class = bits_class;
    device.per_batch = std::chrono::microseconds(100);
  }
  return config;
}

// Both kinds, and what is asked of them; jobs over the fleet that comes of it.
struct Mixed {
  FakeDriver::Config slow = devices_of_class(2, "slow");
  FakeDriver::Config fast = devices_of_class(2, "fast");
  std::vector<std::size_t> slow_ordinals;
  std::vector<std::size_t> fast_ordinals;
  std::optional<Error> slow_refused;
  std::optional<Error> fast_refused;
  bool named = true;
  bool absent = false;
  bool reproducible = false;
  std::vector<std::uint32_t> values{17};

  std::mutex mutex;
  std::vector<std::string> notices;
  std::vector<std::unique_ptr<FakeModel>> models;
  std::unique_ptr<Fleet> fleet;
  std::string failure;

  void note(const std::string& text) {
    const std::lock_guard lock(mutex);
    notices.push_back(text);
  }
  template <class D>
  std::unique_ptr<KindFleet> kind(const FakeDriver::Config& driver, std::vector<std::size_t> ordinals, Precision precision) {
    std::vector<ModelToLoad> loads;
    for (const auto& model : models) {
      loads.push_back({&model->source(), fake_graph(precision), kFakeVocab, 3});
    }
    FleetOptions options;
    options.ordinals = std::move(ordinals);
    options.precision = precision;
    options.notice = [this](const std::string& text) { note(text); };
    return std::make_unique<DeviceFleet<D>>(RuntimeConfig<D>{driver, {StreamStrategy::Kind::number, 2}}, loads, fake_stage(),
                                            std::move(options));
  }
  void start() {
    for (const auto value : values) {
      models.push_back(std::make_unique<FakeModel>(value));
    }
    std::vector<WantedKind> kinds;
    kinds.push_back({.fleet = kind<FakeDriver>(slow, slow_ordinals, Precision::f32), .named = named, .refused = slow_refused});
    kinds.push_back(
        {.fleet = kind<FastDriver>(fast, fast_ordinals, Precision::f16), .named = named, .refused = fast_refused, .absent = [this] {
           return absent;
         }});
    auto made = start_fleet(std::move(kinds), reproducible, [this](const std::string& text) { note(text); });
    if (made) {
      fleet = *std::move(made);
    } else {
      failure = made.error().text();
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& device : fleet->devices()) {
      names.push_back(device.name);
    }
    return names;
  }
  std::vector<std::uint64_t> seeds(Precision precision) const {
    std::vector<std::uint64_t> seeds;
    for (const auto& model : models) {
      seeds.push_back(fake_seed_in(precision, model->seed()));
    }
    return seeds;
  }
  FakeDone score(std::span<const FakeRecord> records) {
    const MemoryFile input(to_text(records));
    ScoreOptions options;
    options.ensemble = Ensemble::logits;
    options.notice = [this](const std::string& text) { note(text); };
    return run_job(*fleet, fake_stage(), input.path(), options);
  }
  // How many lines are the one kind's, and how many the other's; all are.
  std::pair<std::size_t, std::size_t> check_lines(const FakeDone& done, std::span<const FakeRecord> records) const {
    std::pair<std::size_t, std::size_t> counts;
    REQUIRE(done.lines.size() == records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      const bool of_slow = done.lines[i] == expected_line(seeds(Precision::f32), records[i], i);
      const bool of_fast = done.lines[i] == expected_line(seeds(Precision::f16), records[i], i);
      if (!of_slow && !of_fast) {
        FAIL(done.lines[i]);
      }
      ++(of_slow ? counts.first : counts.second);
    }
    CHECK(done.summary.end == ScoreEnd::complete);
    return counts;
  }
  ~Mixed() {
    fleet.reset();
    for (const auto& driver : {slow, fast}) {
      driver.faults->release(true);
      CHECK(driver.ledger->wait_empty());
      CHECK(driver.ledger->violations().empty());
    }
  }
};

using Names = std::vector<std::string>;

TEST_CASE("devices of two kinds share a job, each in its own precision", "[threads]") {
  Mixed mixed;
  mixed.values = GENERATE(std::vector<std::uint32_t>{17}, std::vector<std::uint32_t>{17, 19, 23});
  mixed.start();
  REQUIRE(mixed.fleet);
  CHECK(mixed.names() == Names{"fake:0", "fake:1", "fast:0", "fast:1"});
  CHECK(mixed.fleet->models() == mixed.values.size());
  CHECK(mixed.fleet->lanes().size() == 8);
  CHECK(mixed.fleet->lanes()[6]->devices()[0] == 3);
  CHECK_FALSE(mixed.fleet->hangs());
  REQUIRE(mixed.notices.size() == 1);
  CHECK_THAT(mixed.notices[0], Contains("devices of 2 classes work"));
  const auto records = some_records(2000);
  const auto done = mixed.score(records);
  const auto [slow, fast] = mixed.check_lines(done, records);
  CHECK(slow > 100);
  CHECK(fast > 100);
  const auto stats = to_json(done.summary.devices, done.summary.seconds);
  CHECK(stats[0]["precision"] == "f32");
  CHECK(stats[3]["precision"] == "f16");
  CHECK(stats[3]["device"] == "fast:1");
  CHECK(stats[3]["records"] > 0);
  const auto info = mixed.fleet->debug_info();
  REQUIRE(info["devices"].size() == 4);
  CHECK(info["devices"][3]["kind"] == "fast");
  CHECK(info["devices"][3]["ordinal"] == 1);
  CHECK(info["kinds"]["fake"]["calls"]["init_from_host"] == mixed.values.size());
  CHECK(info["kinds"]["fast"]["calls"]["init_from_host"] == mixed.values.size());
}

TEST_CASE("a kind that fails is the other's work", "[threads]") {
  Mixed mixed;
  mixed.values = GENERATE(std::vector<std::uint32_t>{17}, std::vector<std::uint32_t>{17, 19});
  const bool slow_is_lost = GENERATE(false, true);
  (slow_is_lost ? mixed.slow_ordinals : mixed.fast_ordinals) = {0};
  mixed.start();
  FakeFaults::Plan plan;
  plan.lost_at_run = 6;
  (slow_is_lost ? mixed.slow : mixed.fast).faults->plan(0, plan);
  const auto records = some_records(2000);
  const auto done = mixed.score(records);
  const auto [slow, fast] = mixed.check_lines(done, records);
  CHECK((slow_is_lost ? slow < fast : fast < slow));
  REQUIRE(mixed.notices.size() == 2);  // the first says that there are two classes
  CHECK_THAT(mixed.notices[1], Contains(slow_is_lost ? "fake:0 is retired: " : "fast:0 is retired: ") && Contains("2 devices go on"));
}

TEST_CASE("one class is kept on demand: that of the faster kind, whatever the hints say") {
  Mixed mixed;
  mixed.reproducible = true;
  mixed.slow.devices[0].cores = 500;
  SECTION("of one class") {
    mixed.start();
    CHECK(mixed.names() == Names{"fast:0", "fast:1"});
    const auto records = some_records(300);
    CHECK(mixed.check_lines(mixed.score(records), records).first == 0);
  }
  SECTION("of several") {
    mixed.fast.devices[1].bits_class = "faster";
    mixed.fast.devices[1].cores = 9;
    mixed.start();
    CHECK(mixed.names() == Names{"fast:1"});
  }
  SECTION("and where it is none") {
    mixed.fast.no_open = "there is none";
    mixed.named = false;
    mixed.absent = true;
    mixed.start();
    CHECK(mixed.names() == Names{"fake:0", "fake:1"});
  }
  CHECK(mixed.notices.empty());
  CHECK(mixed.slow.ledger->loads == (mixed.fast.no_open.empty() ? 0 : 1));
}

TEST_CASE("a kind that cannot be found or started is left out, with a notice") {
  Mixed mixed;
  SECTION("not found") {
    mixed.fast.no_open = "there is no driver";
    mixed.named = GENERATE(false, true);
    mixed.start();
    CHECK(mixed.notices == Names{"fast is left out: device: there is no driver"});
  }
  SECTION("not found, and nobody expected it") {
    mixed.fast.no_open = "there is no driver";
    mixed.named = false;
    mixed.absent = true;
    mixed.start();
    CHECK(mixed.notices.empty());
  }
  SECTION("refused") {
    mixed.named = false;
    mixed.fast_refused = Error(ErrorKind::input, "it has no f16");
    mixed.start();
    CHECK(mixed.notices == Names{"fast is left out: it has no f16"});
    CHECK(mixed.fast.ledger->loads == 0);
  }
  SECTION("started in vain") {
    mixed.fast_ordinals = {1};
    FakeFaults::Plan plan;
    plan.no_load = true;
    mixed.fast.faults->plan(1, plan);
    mixed.start();
    CHECK(mixed.notices == Names{"fast is left out: device: fake:1 does not load"});
  }
  REQUIRE(mixed.fleet);
  CHECK(mixed.names() == Names{"fake:0", "fake:1"});
  const auto records = some_records(300);
  CHECK(mixed.check_lines(mixed.score(records), records).second == 0);
}

TEST_CASE("where no kind is left, what kept the first one is the error") {
  Mixed mixed;
  SECTION("both named") {
    mixed.slow.no_open = "no slow ones";
    mixed.fast.no_open = "no fast ones";
    mixed.start();
    CHECK(mixed.failure == "device: no slow ones");
  }
  SECTION("of those that were expected") {
    mixed.named = false;
    mixed.absent = true;
    mixed.fast.no_open = "no fast ones";
    mixed.slow_refused = Error(ErrorKind::input, "they have no f16");
    mixed.start();
    CHECK(mixed.failure == "they have no f16");
  }
  SECTION("a named one that is refused is an error at once") {
    mixed.fast_refused = Error(ErrorKind::input, "they have no int8");
    mixed.start();
    CHECK(mixed.failure == "they have no int8");
    CHECK(mixed.slow.ledger->loads == 0);
  }
  SECTION("so is a device that is not there") {
    mixed.fast_ordinals = {0, 2};
    mixed.start();
    CHECK(mixed.failure == "--devices fast:2: there are fast:0 to fast:1");
  }
  CHECK(mixed.notices.empty());
}

TEST_CASE("devices that compute whole buckets pay for padding, others do not", "[threads]") {
  Mixed mixed;
  mixed.fast.padded_products = true;
  mixed.start();
  const auto records = some_records(2000);
  const auto done = mixed.score(records);
  const auto& devices = done.summary.devices;
  REQUIRE(devices.size() == 4);
  for (const std::size_t slow : {0U, 1U}) {
    CHECK(devices[slow].padding == 0);
  }
  std::uint64_t computed = 0;
  for (const std::size_t fast : {2U, 3U}) {
    CHECK(devices[fast].padding > 0);
    computed += devices[fast].padding + devices[fast].tokens;
  }
  CHECK(computed % 16 == 0);  // whole buckets
}

}  // namespace
