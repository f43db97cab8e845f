#include "kime/job/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "kime/backend/cpu/peak.h"
#include "kime/graph/flops.h"
#include "kime/job/window.h"

namespace kime {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPeakSample{200};

struct PackedBatch {
  BatchBuffer buffer;
  double flops = 0;
};

std::vector<PackedBatch> pack_work(const std::vector<Record>& records, const Graph& graph, const StageBuckets& stage, std::size_t threads) {
  std::vector<PackedBatch> all;
  Window window(threads);
  const auto pack_window = [&] {
    window.pack_all(stage.buckets, [&](const std::vector<std::uint64_t>& numbers) {
      PackedBatch work;
      for (const auto number : numbers) {
        const auto& record = records[number];
        if (auto pushed = work.buffer.push(record.ids, record.markers, record.qtype); !pushed) {
          return false;
        }
      }
      const Batch batch = work.buffer.batch();
      work.flops = useful_flops(graph, batch.cu, batch.markers, batch.mcu);
      all.push_back(std::move(work));
      return true;
    });
  };
  for (std::size_t i = 0; i < records.size(); ++i) {
    window.add(i, {static_cast<std::uint32_t>(records[i].ids.size()), static_cast<std::uint32_t>(records[i].markers.size())});
    if (window.full()) {
      pack_window();
    }
  }
  pack_window();
  return all;
}

// One round: every thread takes batches until the time is over.
class Round {
 public:
  Round(std::vector<PackedBatch>& work, std::atomic<std::size_t>& next) : work_(work), next_(next) {}

  void run(std::span<const std::shared_ptr<Lane>> lanes, double seconds) {
    const auto begin = Clock::now();
    const auto end = begin + std::chrono::duration<double>(seconds);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < lanes.size(); ++i) {
      threads.emplace_back([&, i] { take(*lanes[i], end); });
    }
    take(*lanes[0], end);
    for (auto& thread : threads) {
      thread.join();
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
  }

  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] double flops() const { return flops_; }
  [[nodiscard]] std::size_t tokens() const { return tokens_; }
  [[nodiscard]] std::size_t records() const { return records_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  template <class Time>
  void take(Lane& lane, Time end) {
    do {
      const PackedBatch& work = work_[next_.fetch_add(1) % work_.size()];
      lane.host->buffer = work.buffer;
      Bucket bucket;
      auto failure = lane.score(bucket);
      const std::lock_guard lock(mutex_);
      if (failure) {
        error_ = std::move(failure->error);
        return;
      }
      flops_ += work.flops;
      tokens_ += work.buffer.batch().ids.size();
      records_ += work.buffer.batch().seqs();
    } while (Clock::now() < end);
  }

  std::vector<PackedBatch>& work_;
  std::atomic<std::size_t>& next_;
  std::mutex mutex_;
  double seconds_ = 0;
  double flops_ = 0;
  std::size_t tokens_ = 0;
  std::size_t records_ = 0;
  std::optional<Error> error_;
};

}  // namespace

std::vector<Record> ticket_records(std::size_t count, std::size_t vocab) {
  // Figures for a benchmark's input, which never reach a score: libm's are good enough.
  std::mt19937 random(1);
  std::normal_distribution<double> length(std::log(110.0), 0.55);
  const auto below = [&random](std::size_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  std::vector<Record> records(count);
  for (auto& record : records) {
    const auto tokens = static_cast<std::size_t>(std::clamp(std::exp(length(random)), 32.0, 512.0));
    for (std::size_t i = 0; i < tokens; ++i) {
      record.ids.push_back(below(vocab));
    }
    const std::size_t options = 2 + below(7);
    for (std::size_t i = 0; i < options; ++i) {
      record.markers.push_back(static_cast<std::uint32_t>(1 + i * (tokens - 1) / options));
    }
    record.qtype = static_cast<std::uint8_t>(below(3));
  }
  return records;
}

Result<BenchReport> bench(Fleet& fleet, const Graph& graph, const StageBuckets& stage, const std::vector<Record>& records,
                          const BenchOptions& options) {
  auto work = pack_work(records, graph, stage, options.threads);
  std::atomic<std::size_t> next = 0;
  {
    Round warm(work, next);  // plans are built, pages are touched
    warm.run(fleet.lanes(), 0);
  }
  BenchReport report;
  double model_seconds = 0;
  double model_flops = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  report.peak_flops = cpu::fma_peak(options.threads, kPeakSample);
  do {
    Round round(work, next);
    round.run(fleet.lanes(), options.seconds / 8);
    if (round.error()) {
      return *round.error();
    }
    ++report.rounds;
    model_seconds += round.seconds();
    model_flops += round.flops();
    report.tokens += round.tokens();
    report.records += round.records();
    report.best_model_flops = std::max(report.best_model_flops, round.flops() / round.seconds());
    report.peak_flops = std::max(report.peak_flops, cpu::fma_peak(options.threads, kPeakSample));
  } while (Clock::now() < end);
  report.model_flops = model_flops / model_seconds;
  report.tokens_per_second = static_cast<double>(report.tokens) / model_seconds;
  report.records_per_second = static_cast<double>(report.records) / model_seconds;
  return report;
}

}  // namespace kime
