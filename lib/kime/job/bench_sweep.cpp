#include "kime/job/bench_sweep.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <utility>

#include "kime/graph/op_groups.h"
#include "kime/job/bench_load.h"

namespace kime {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::array<std::size_t, 3> kLatencyTokens = {16, 64, 256};
constexpr std::array<std::size_t, 6> kLengths = {64, 128, 256, 512, 1024, 2048};
constexpr std::array<std::size_t, 4> kBatchRecords = {1, 4, 16, 64};
constexpr std::size_t kPassTokens = 256;  // about what a lane takes at a time of short records
constexpr double kLatencyRuns = 5;        // the fewest that a median is worth something of
constexpr double kSlower = 1.3;           // long records and lone batches, than the mix that the speed was measured with
constexpr std::string_view kNoTime = "no time; more --seconds";
constexpr std::string_view kNoBucket = "no bucket holds it";

class Sweep {
 public:
  Sweep(const BenchRig& rig, const BenchReport& report, std::size_t vocab) : rig_(rig), report_(report), vocab_(vocab) {}

  // The fewest seconds that each point needs, in the order in which run() measures them.
  [[nodiscard]] std::vector<double> least() const {
    std::vector<double> least;
    least.reserve(kLatencyTokens.size() + kLengths.size() + kBatchRecords.size());
    for (const std::size_t tokens : kLatencyTokens) {
      least.push_back(kLatencyRuns * expected(std::max(tokens, kSweepTokens)));  // the shortest take as long: weights are read
    }
    for (const std::size_t tokens : kLengths) {
      least.push_back(expected(std::max(tokens, kPassTokens) * rig_.fleet.lanes().size()));
    }
    for (const std::size_t records : kBatchRecords) {
      least.push_back(expected(records * kSweepTokens));
    }
    return least;
  }

  Result<SweepReport> run(std::span<const std::optional<double>> times) {
    SweepReport sweep;
    auto time = times.begin();
    for (const std::size_t tokens : kLatencyTokens) {
      sweep.latencies.emplace_back().tokens = tokens;
      keep_error(latency(sweep.latencies.back(), *time++));
    }
    for (const std::size_t tokens : kLengths) {
      sweep.lengths.emplace_back().tokens = tokens;
      keep_error(length(sweep.lengths.back(), *time++));
    }
    for (const std::size_t records : kBatchRecords) {
      sweep.batches.emplace_back().records = records;
      keep_error(batch(sweep.batches.back(), *time++));
    }
    if (error_) {
      return *std::move(error_);
    }
    return sweep;
  }

 private:
  [[nodiscard]] double expected(std::size_t tokens) const { return kSlower * static_cast<double>(tokens) / report_.tokens_per_second; }

  void keep_error(Status status) {
    if (!status && !error_) {
      error_ = std::move(status).error();
    }
  }

  // Makes the first `lanes` lanes ready for the records' bucket. Or says why the point is left out.
  Status make_ready(std::span<const Record> records, std::size_t lanes, const std::optional<double>& time, std::string& left_out) const {
    std::size_t tokens = 0;
    std::size_t markers = 0;
    for (const Record& record : records) {
      tokens += record.ids.size();
      markers += record.markers.size();
    }
    const Bucket* bucket = find_bucket(rig_.stage.buckets, tokens, records.size(), markers);
    if (bucket == nullptr || !time || error_) {
      left_out = bucket == nullptr ? kNoBucket : kNoTime;
      return {};
    }
    if (auto prepared = rig_.fleet.prepare({bucket, 1}); !prepared) {
      return prepared;
    }
    for (const auto& lane : rig_.fleet.lanes().first(lanes)) {
      if (auto failure = lane->prepare({bucket, 1})) {
        return failure->error;
      }
    }
    return {};
  }

  Status latency(LatencyPoint& point, const std::optional<double>& time) const {
    const auto records = even_records(1, point.tokens, vocab_);
    if (auto ready = make_ready(records, 1, time, point.left_out); !ready || !point.left_out.empty()) {
      return ready;
    }
    const PackedBatch work = one_batch(records, rig_.graph);
    Lane& lane = *rig_.fleet.lanes()[0];
    std::vector<double> seconds;
    const auto begin = Clock::now();
    do {
      lane.host->buffer = work.buffer;
      Bucket used;
      const auto started = Clock::now();
      if (auto failure = lane.score(used)) {
        return failure->error;
      }
      seconds.push_back(std::chrono::duration<double>(Clock::now() - started).count());
    } while (std::chrono::duration<double>(Clock::now() - begin).count() + seconds.back() <= *time);
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::ranges::nth_element(seconds, middle);
    point.median = *middle;
    point.runs = seconds.size();
    const auto devices = static_cast<double>(rig_.fleet.devices().size());
    const Speeds& all = report_.speeds;
    point.bound = least_seconds(rig_.graph, work.costs, {all.flops / devices, all.f32_flops / devices, all.bytes / devices});
    for (const OpCost& cost : work.costs) {
      point.bytes += cost.bytes;
      point.flops += cost.flops;
    }
    return {};
  }

  Status length(LengthPoint& point, const std::optional<double>& time) const {
    const auto lanes = rig_.fleet.lanes();
    const std::size_t each = std::max<std::size_t>(1, 8 * kPassTokens / point.tokens);
    const auto records = even_records(each * lanes.size(), point.tokens, vocab_);
    if (auto ready = make_ready({records.data(), 1}, lanes.size(), time, point.left_out); !ready || !point.left_out.empty()) {
      return ready;
    }
    static_cast<void>(rig_.profile->take());
    auto stretch = Load(pack_work(records, rig_.graph, rig_.stage, lanes.size())).run(lanes, *time);
    if (!stretch) {
      return std::move(stretch).error();
    }
    point.tokens_per_second = stretch->tokens_per_second();
    const auto seconds = rig_.profile->take();
    double full = 0;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const auto* attention = std::get_if<Attention>(&rig_.graph.ops[i]);
      full += attention != nullptr && !attention->reach ? seconds[i] : 0;
    }
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    point.full_attention = all > 0 ? full / all : 0;
    return {};
  }

  Status batch(BatchPoint& point, const std::optional<double>& time) const {
    const auto records = even_records(point.records, kSweepTokens, vocab_);
    if (auto ready = make_ready(records, 1, time, point.left_out); !ready || !point.left_out.empty()) {
      return ready;
    }
    std::vector<PackedBatch> work;
    work.push_back(one_batch(records, rig_.graph));
    auto stretch = Load(std::move(work)).run(rig_.fleet.lanes().first(1), *time);
    if (!stretch) {
      return std::move(stretch).error();
    }
    point.tokens_per_second = stretch->tokens_per_second();
    return {};
  }

  const BenchRig& rig_;
  const BenchReport& report_;
  std::size_t vocab_;
  std::optional<Error> error_;
};

}  // namespace

std::vector<std::optional<double>> divide_time(std::span<const double> least, double seconds) {
  std::vector<std::size_t> order(least.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return least[i]; });
  std::size_t kept = 0;
  double needed = 0;
  while (kept < order.size() && needed + least[order[kept]] <= seconds) {
    needed += least[order[kept++]];
  }
  std::vector<std::optional<double>> times(least.size());
  for (std::size_t i = 0; i < kept; ++i) {
    times[order[i]] = least[order[i]] + (seconds - needed) / static_cast<double>(kept);
  }
  return times;
}

Result<SweepReport> sweep(const BenchRig& rig, const BenchReport& report, std::size_t vocab, double seconds) {
  Sweep all(rig, report, vocab);
  return all.run(divide_time(all.least(), seconds));
}

}  // namespace kime
