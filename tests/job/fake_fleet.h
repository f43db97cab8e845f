// Whole jobs over fleets of fake devices: records in, lines out, each line held against what it must be.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kime/job/device_fleet.h"
#include "kime/job/score_job.h"
#include "tests/support/fake_driver.h"

namespace kime::test {

/// Ends the process, and says of what, when its owner is not done in time: a job that hangs is a failure, not a long test.
class Watchdog {
 public:
  explicit Watchdog(std::string what, std::chrono::seconds patience = std::chrono::seconds(60))
      : thread_([this, what = std::move(what), patience] {
          std::unique_lock lock(mutex_);
          if (!done_.wait_for(lock, patience, [this] { return over_; })) {
            fmt::print(stderr, "hangs: {}\n", what);
            std::abort();
          }
        }) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    done_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

/// A file in memory, with a path that opens it anew.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes = {}) : fd_(memfd_create("kime", MFD_CLOEXEC)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::string text(static_cast<std::size_t>(lseek(fd_, 0, SEEK_END)), '\0');
    REQUIRE(pread(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      REQUIRE(end != std::string::npos);  // no line is cut
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

 private:
  int fd_;
};

/// A checkpoint of one tensor, for devices that hash it.
class FakeModel {
 public:
  explicit FakeModel(std::uint32_t value) : value_(value), tensors_{{{DType::f32, shape_, std::as_bytes(std::span(&value_, 1))}}} {}
  FakeModel(const FakeModel&) = delete;
  FakeModel& operator=(const FakeModel&) = delete;

  [[nodiscard]] const TensorSource& source() const { return source_; }
  [[nodiscard]] std::uint64_t seed() const { return *fake_seed(source_); }

 private:
  std::uint32_t value_;
  std::array<std::size_t, 1> shape_{1};
  std::array<HostTensor, 1> tensors_;
  HostTensors source_{tensors_};
};

struct FakeRecord {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> markers;
  std::uint8_t qtype = 0;
};

constexpr std::uint32_t kFakeVocab = 1000;

/// Records of up to `longest` tokens below half of the vocabulary: what tests put in to do harm lies above.
inline std::vector<FakeRecord> random_records(std::mt19937_64& random, std::size_t count, std::size_t longest = 24) {
  std::vector<FakeRecord> records(count);
  for (auto& record : records) {
    record.ids.resize(1 + random() % longest);
    for (auto& id : record.ids) {
      id = static_cast<std::uint32_t>(random() % (kFakeVocab / 2));
    }
    record.markers.resize(random() % 4);
    for (auto& marker : record.markers) {
      marker = static_cast<std::uint32_t>(random() % record.ids.size());
    }
    record.qtype = static_cast<std::uint8_t>(random() % 3);
  }
  return records;
}

/// The same ones for a count, in every run.
inline std::vector<FakeRecord> some_records(std::size_t count) {
  std::mt19937_64 random(count);
  return random_records(random, count);
}

inline std::string to_text(std::span<const FakeRecord> records) {
  std::string text;
  for (const auto& record : records) {
    fmt::format_to(std::back_inserter(text), "{{\"ids\":[{}],\"markers\":[{}],\"qtype\":{}}}\n", fmt::join(record.ids, ","),
                   fmt::join(record.markers, ","), record.qtype);
  }
  return text;
}

/// The buckets of these jobs: small, so that a few records are many batches.
inline StageBuckets fake_stage() {
  return {"test", {{16, 8, 32}, {32, 16, 64}, {64, 32, 128}, {128, 32, 256}}};
}

struct FakeFleetOptions {
  FakeDriver::Config driver;
  std::size_t streams = 1;  ///< Of each device.
  std::chrono::duration<double> timeout{0};
  std::vector<std::uint32_t> models{17};  ///< A value for each checkpoint.
  Precision precision = Precision::f32;
  std::optional<Precision> wider;
  StageBuckets stage = fake_stage();
};

struct FakeDone {
  ScoreSummary summary;
  std::vector<std::string> lines;
  std::vector<std::string> notices;  ///< All since the fleet was made.
};

/// Scores a file on any fleet.
inline FakeDone run_job(Fleet& fleet, const StageBuckets& stage, const std::string& path, const ScoreOptions& options) {
  const Watchdog watchdog("a job");
  Stop stop;
  IntakeOptions in;
  in.files = {path};
  in.lines.records.vocab = kFakeVocab;
  in.lines.stage = stage.stage;
  in.lines.buckets = stage.buckets;
  in.wake_fd = stop.fd();
  auto intake = Intake::open(std::move(in));
  REQUIRE(intake);
  const MemoryFile file;
  Output output(file.fd(), "output");
  const std::vector<Calibration> calibrations(fleet.models());
  ScoreSummary summary = score(*intake, fleet, stage, calibrations, options, output, stop);
  return {std::move(summary), file.lines(), {}};
}

/// A graph whose products are in that precision: all that a fake looks at.
inline std::shared_ptr<const Graph> fake_graph(Precision precision) {
  Gemm gemm;
  gemm.precision = precision;
  auto graph = std::make_shared<Graph>();
  graph->ops.emplace_back(gemm);
  return graph;
}

/// A fleet and what its jobs need. In the end all that hangs is let go; then all memory must have come back, and no rule of the driver's
/// contract must have been broken.
class FakeFleet {
 public:
  explicit FakeFleet(FakeFleetOptions options) : options_(std::move(options)) {
    std::vector<ModelToLoad> loads;
    for (const auto value : options_.models) {
      models_.push_back(std::make_unique<FakeModel>(value));
      loads.push_back({&models_.back()->source(), fake_graph(options_.precision), kFakeVocab, 3});
      if (options_.wider) {
        loads.back().wider = fake_graph(*options_.wider);
      }
    }
    StreamStrategy streams;
    streams.kind = StreamStrategy::Kind::number;
    streams.count = options_.streams;
    FleetOptions fleet;
    fleet.timeout = options_.timeout;
    fleet.notice = [this](const std::string& text) { note(text); };
    auto made = DeviceFleet<FakeDriver>::make({options_.driver, streams}, loads, options_.stage, std::move(fleet));
    if (made) {
      fleet_ = *std::move(made);
    } else {
      failure_ = made.error().text();
    }
  }
  FakeFleet(const FakeFleet&) = delete;
  FakeFleet& operator=(const FakeFleet&) = delete;
  ~FakeFleet() { end(); }

  [[nodiscard]] bool made() const { return fleet_ != nullptr; }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] DeviceFleet<FakeDriver>& fleet() { return *fleet_; }
  [[nodiscard]] FakeFaults& faults() const { return *options_.driver.faults; }
  [[nodiscard]] FakeLedger& ledger() const { return *options_.driver.ledger; }
  /// What its checkpoints are to expected_fake_scores().
  [[nodiscard]] std::vector<std::uint64_t> seeds() const {
    std::vector<std::uint64_t> seeds;
    for (const auto& model : models_) {
      seeds.push_back(fake_seed_in(options_.precision, model->seed()));
    }
    return seeds;
  }
  /// The same for one record, which may be scored again in the wider precision.
  [[nodiscard]] std::vector<std::uint64_t> seeds_for(const FakeRecord& record) const {
    std::vector<std::uint64_t> seeds = this->seeds();
    for (std::size_t model = 0; model < seeds.size() && options_.wider; ++model) {
      if (fake_overflows(options_.driver.overflows_from, seeds[model], record.ids)) {
        seeds[model] = fake_seed_in(*options_.wider, models_[model]->seed());
      }
    }
    return seeds;
  }
  [[nodiscard]] std::vector<std::string> notices() {
    const std::lock_guard lock(mutex_);
    return notices_;
  }
  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    notices_.push_back(text);
  }

  [[nodiscard]] ScoreOptions options() {
    ScoreOptions options;
    options.notice = [this](const std::string& text) { note(text); };
    return options;
  }
  [[nodiscard]] FakeDone score(std::span<const FakeRecord> records) { return score(records, options()); }
  [[nodiscard]] FakeDone score(std::span<const FakeRecord> records, const ScoreOptions& options) {
    const MemoryFile input(to_text(records));
    return score_file(input.path(), options);
  }
  [[nodiscard]] FakeDone score_file(const std::string& path, const ScoreOptions& options) {
    FakeDone done = run_job(*fleet_, options_.stage, path, options);
    done.notices = notices();
    return done;
  }

  /// Lets go what hangs, ends the fleet, and looks at what it leaves. Again: nothing.
  void end() {
    if (std::exchange(ended_, true)) {
      return;
    }
    const Watchdog watchdog("the end of a fleet");
    fleet_.reset();
    faults().release(true);
    CHECK(ledger().wait_empty());
    CHECK(ledger().violations() == std::vector<std::string>());
  }

 private:
  FakeFleetOptions options_;
  std::vector<std::unique_ptr<FakeModel>> models_;
  std::mutex mutex_;
  std::vector<std::string> notices_;
  std::string failure_;
  std::unique_ptr<DeviceFleet<FakeDriver>> fleet_;
  bool ended_ = false;
};

inline ScoreOptions by_logits(FakeFleet& fleet) {
  ScoreOptions options = fleet.options();
  options.ensemble = Ensemble::logits;
  return options;
}

inline FakeDriver::Config fake_devices(std::size_t count, bool async) {
  FakeDriver::Config config;
  config.async = async;
  config.devices.assign(count, {});
  for (std::size_t i = 0; i < count; ++i) {
    config.devices[i].space = i;
    config.devices[i].cores = 4;
  }
  return config;
}

/// The line of a scored record, the `number`-th from 0; with several checkpoints the average of their logits.
inline std::string expected_line(std::span<const std::uint64_t> seeds, const FakeRecord& record, std::size_t number) {
  std::vector<double> sums(record.markers.size() + 2);
  for (const auto seed : seeds) {
    const FakeScores each = expected_fake_scores(seed, record.ids, record.markers, record.qtype);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += static_cast<double>(i < each.logits.size() ? each.logits[i] : each.act[i - each.logits.size()]);
    }
  }
  FakeScores scores;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto mean = static_cast<float>(sums[i] / static_cast<double>(seeds.size()));
    if (i < record.markers.size()) {
      scores.logits.push_back(mean);
    } else {
      scores.act[i - record.markers.size()] = mean;
    }
  }
  return fmt::format("{{\"id\":{},\"logits\":[{}],\"act\":[{},{}]}}", number + 1, fmt::join(scores.logits, ","), scores.act[0],
                     scores.act[1]);
}

/// What the lines of a job say, which are in order, each its record's.
struct FakeLines {
  std::size_t scored = 0;
  std::vector<std::size_t> failed;  ///< Records, from 0, that have a `device` line.
  std::string wrong;                ///< The first line that is neither right scores nor such a line; "" if all are.
};
inline FakeLines read_lines(const std::vector<std::string>& lines, std::span<const FakeRecord> records,
                            std::span<const std::uint64_t> seeds) {
  FakeLines read;
  for (std::size_t i = 0; i < lines.size() && read.wrong.empty(); ++i) {
    if (i < records.size() && lines[i] == expected_line(seeds, records[i], i)) {
      ++read.scored;
      continue;
    }
    const auto json = nlohmann::json::parse(lines[i], nullptr, false);
    const bool device = json.is_object() && json.contains("error") && json["error"].value("kind", "") == "device" &&
                        json.value("id", std::uint64_t{0}) == i + 1 && json.value("line", std::uint64_t{0}) == i + 1;
    if (device && i < records.size()) {
      read.failed.push_back(i);
    } else {
      read.wrong = fmt::format("line {} of {} records: {}", i + 1, records.size(), lines[i]);
    }
  }
  return read;
}

/// All of a job's rules that hold whatever fails. Returns which records failed.
inline std::vector<std::size_t> check_job(const FakeDone& done, std::span<const FakeRecord> records, std::span<const std::uint64_t> seeds) {
  const FakeLines read = read_lines(done.lines, records, seeds);
  CHECK(read.wrong == "");
  CHECK(done.summary.scored == read.scored);
  CHECK(done.summary.failed == read.failed.size());
  if (done.summary.end == ScoreEnd::complete) {
    CHECK(done.lines.size() == records.size());
  } else {
    CHECK(done.summary.end == ScoreEnd::devices_lost);
    CHECK(done.summary.message.starts_with("no device is left: "));
    CHECK(done.lines.size() <= records.size());
  }
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < done.lines.size(); ++i) {
    tokens += std::ranges::binary_search(read.failed, i) ? 0 : records[i].ids.size();
  }
  CHECK(done.summary.tokens == tokens);
  std::uint64_t batches = 0;
  std::uint64_t in_devices = 0;
  for (const auto& device : done.summary.devices) {
    batches += device.batches + device.failures;
    in_devices += device.records;
  }
  CHECK(batches >= done.summary.batches);  // each device of an ensemble counts its batches
  CHECK(in_devices >= done.summary.scored);
  if (seeds.size() == 1) {
    CHECK(batches == done.summary.batches);
    CHECK((in_devices == done.summary.scored || done.summary.end == ScoreEnd::devices_lost));
  }
  return read.failed;
}

}  // namespace kime::test
