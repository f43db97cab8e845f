// Thousands of faults, drawn at random, under load: KIME_STORM_SECONDS says for how long (else some jobs), KIME_STORM_SEED repeats a storm.
#include <fmt/format.h>
#include <malloc.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/job/fake_fleet.h"

namespace {

using namespace kime;        // NOLINT(google-build-using-namespace): tests of it
using namespace kime::test;  // NOLINT(google-build-using-namespace)

#ifdef KIME_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr std::uint32_t kHarm = 900;  ///< Ids from here on do harm.

std::optional<std::uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : std::optional<std::uint64_t>(std::strtoull(text, nullptr, 10));
}

/// A line of /proc/self/status in MiB: what is resident now (VmRSS), what was at most (VmHWM).
double mib_of(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) {
      return std::strtod(line.c_str() + name.size() + 1, nullptr) / 1024;
    }
  }
  return 0;
}

double resident_mib() {
  malloc_trim(0);
  return mib_of("VmRSS");
}

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed) {}

  /// Some jobs on a fleet of a kind of its own.
  void fleet() {
    FakeFleetOptions options = draw_fleet();
    const bool calm = plan_start(options);
    FakeFleet fleet(std::move(options));
    ++fleets_;
    if (fleet.made()) {
      fleet.faults().chances(calm ? FakeFaults::Chances() : draw_chances());
      plan_middle(fleet, calm);
      for (std::size_t jobs = 1 + random_() % 3; jobs > 0; --jobs) {
        job(fleet, calm);
        if (one_in(4)) {
          fleet.faults().release();  // what hung comes back in the middle of everything
        }
      }
      if (calm) {
        CHECK(fleet.fleet().close());
      }
    }
    count(fleet);
    fleet.end();
  }

  [[nodiscard]] std::string summary() const {
    std::string faults;
    for (std::size_t i = 1; i < faults_.size(); ++i) {
      faults += fmt::format("{}{} {}", i > 1 ? ", " : "", kFakeFaultNames[i], faults_[i]);
    }
    return fmt::format(
        "{} jobs on {} fleets; faults met: {}; devices: {} left out, {} retired; jobs that lost their last device: {}; records: {} scored, "
        "{} with an error, {} left when no device was",
        jobs_, fleets_, faults, left_out_, retired_, lost_jobs_, scored_, failed_, unwritten_);
  }
  [[nodiscard]] std::uint64_t faults() const {
    std::uint64_t all = 0;
    for (const auto each : faults_) {
      all += each;
    }
    return all;
  }
  [[nodiscard]] std::uint64_t jobs() const { return jobs_; }

 private:
  bool one_in(std::uint64_t n) { return random_() % n == 0; }
  double up_to(double most) { return std::uniform_real_distribution<double>(0, most)(random_); }

  FakeFleetOptions draw_fleet() {
    FakeFleetOptions options;
    options.driver = fake_devices(1 + random_() % 6, one_in(2));
    for (auto& device : options.driver.devices) {
      device.per_batch = std::chrono::microseconds(one_in(3) ? 0 : random_() % 200);
      device.space = one_in(2) ? 0 : device.space;
    }
    options.streams = 1 + random_() % 3;
    options.timeout = std::chrono::milliseconds(40);
    for (std::uint32_t models = one_in(4) ? static_cast<std::uint32_t>(random_() % 3) : 0; models > 0; --models) {
      options.models.push_back(100 + models);
    }
    return options;
  }

  // Returns whether nothing fails at all: one fleet in ten is to show that the others' rules hold without faults too.
  bool plan_start(FakeFleetOptions& options) {
    if (one_in(10)) {
      options.timeout = std::chrono::seconds(0);
      return true;
    }
    for (std::size_t device = 0; device < options.driver.devices.size(); ++device) {
      FakeFaults::Plan plan;
      plan.no_streams = one_in(20);
      plan.no_memory = one_in(20);
      plan.no_load = one_in(20);
      options.driver.faults->plan(device, plan);
    }
    return false;
  }

  FakeFaults::Chances draw_chances() {
    FakeFaults::Chances chances;
    chances.seed = random_();
    chances.soft = one_in(2) ? up_to(0.1) : 0;
    chances.lost = one_in(3) ? up_to(0.02) : 0;
    chances.hang = one_in(4) ? up_to(0.01) : 0;
    chances.copy = one_in(3) ? up_to(0.01) : 0;
    return chances;
  }

  void plan_middle(FakeFleet& fleet, bool calm) {
    for (std::size_t device = 0; !calm && device < 6; ++device) {
      FakeFaults::Plan plan;
      if (one_in(8)) {
        plan.lost_at_run = 1 + random_() % 30;
      }
      if (one_in(16)) {
        plan.hang_at_run = 1 + random_() % 30;
      }
      if (one_in(12)) {
        plan.soft_from_run = 1 + random_() % 30;
      }
      if (one_in(6)) {
        plan.memory_at_alloc = 3 + random_() % 30;
      }
      fleet.faults().plan(device, plan);
    }
    harm_.clear();
    for (std::uint32_t i = 0; !calm && i < random_() % 3; ++i) {
      const std::array kinds{FakeFault::soft, FakeFault::soft, FakeFault::lost, FakeFault::hang};
      fleet.faults().on_token(kHarm + i, kinds[random_() % kinds.size()]);
      harm_.push_back(kHarm + i);
    }
  }

  void job(FakeFleet& fleet, bool calm) {
    auto records = random_records(random_, 1 + random_() % 400);
    for (const auto id : harm_) {
      records[random_() % records.size()].ids[0] = id;
    }
    auto options = fleet.options();
    options.ensemble = Ensemble::logits;
    const auto done = fleet.score(records, options);
    const auto failed = check_job(done, records, fleet.seeds());
    if (calm) {
      CHECK(done.summary.end == ScoreEnd::complete);
      CHECK(failed.empty());
    }
    ++jobs_;
    scored_ += done.summary.scored;
    failed_ += done.summary.failed;
    unwritten_ += records.size() - done.lines.size();
    lost_jobs_ += done.summary.end == ScoreEnd::devices_lost ? 1 : 0;
  }

  void count(FakeFleet& fleet) {
    for (std::size_t i = 1; i < faults_.size(); ++i) {
      faults_[i] += fleet.faults().injected(static_cast<FakeFault>(i));
    }
    for (const auto& notice : fleet.notices()) {
      left_out_ += notice.find(" is left out: ") != std::string::npos ? 1 : 0;
      retired_ += notice.find(" is retired: ") != std::string::npos ? 1 : 0;
    }
  }

  std::mt19937_64 random_;
  std::vector<std::uint32_t> harm_;
  std::uint64_t jobs_ = 0;
  std::uint64_t fleets_ = 0;
  std::array<std::uint64_t, kFakeFaultNames.size()> faults_{};
  std::uint64_t left_out_ = 0;
  std::uint64_t retired_ = 0;
  std::uint64_t lost_jobs_ = 0;
  std::uint64_t scored_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t unwritten_ = 0;
};

TEST_CASE("a storm of faults loses no record and leaves no memory", "[threads][storm]") {
  const std::uint64_t seed = number_from("KIME_STORM_SEED").value_or(std::random_device()());
  const auto seconds = number_from("KIME_STORM_SECONDS");
  CAPTURE(seed);
  fmt::print("storm: seed {}\n", seed);
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + std::chrono::seconds(seconds.value_or(0));
  Storm storm(seed);
  double resident = 0;
  double peak = 0;
  for (std::uint64_t fleets = 0; fleets < 100 || std::chrono::steady_clock::now() < end; ++fleets) {
    if (fleets == 50) {  // the process has grown to its size
      resident = resident_mib();
      peak = mib_of("VmHWM");
    }
    storm.fleet();
  }
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double left = resident_mib();
  fmt::print("storm: {}; {:.1f} s\n", storm.summary(), took);
  fmt::print("storm: resident {:.1f} MiB after 50 fleets, at most {:.1f} MiB; {:.1f} MiB in the end, at most {:.1f} MiB\n", resident, peak,
             left, mib_of("VmHWM"));
  std::fflush(stdout);
  CHECK(storm.jobs() >= 100);
  CHECK(storm.faults() > storm.jobs());
  if (!kSanitized) {  // sanitizers keep what is freed
    CHECK(left < resident + 8);
  }
}

}  // namespace
