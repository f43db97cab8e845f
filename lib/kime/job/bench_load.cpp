#include "kime/job/bench_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "kime/job/window.h"

namespace kime {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kEvenMarkers = 4;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Record made_up(std::mt19937& random, std::size_t tokens, std::size_t vocab) {
  Record record;
  for (std::size_t i = 0; i < tokens; ++i) {
    record.ids.push_back(static_cast<std::uint32_t>(random() % vocab));
  }
  return record;
}

void spread_markers(Record& record, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    record.markers.push_back(static_cast<std::uint32_t>(1 + i * (record.ids.size() - 1) / count));
  }
}

// The lanes' common account of a stretch.
class Account {
 public:
  explicit Account(std::size_t lanes) : counting_(lanes) { stretch_.lanes = lanes; }

  void add(const PackedBatch& packed, double seconds, bool counts) {
    const Batch batch = packed.buffer.batch();
    WorkDone work{.lane_seconds = seconds, .tokens = batch.ids.size(), .records = batch.seqs(), .op_flops = {}};
    for (const OpCost& cost : packed.costs) {
      work.op_flops.push_back(cost.flops);
    }
    const std::lock_guard lock(mutex_);
    stretch_.all.add(work);
    if (counts) {
      stretch_.counted.add(work);
    }
  }
  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
  }
  // What a lane does from now on does not count.
  void lane_is_through() { counting_.fetch_sub(1); }
  [[nodiscard]] bool some_count() const { return counting_.load() > 0; }

  Result<Stretch> close() && {
    if (error_) {
      return *std::move(error_);
    }
    return std::move(stretch_);
  }

 private:
  std::atomic<std::size_t> counting_;
  std::mutex mutex_;
  Stretch stretch_;
  std::optional<Error> error_;
};

}  // namespace

std::vector<Record> ticket_records(std::size_t count, std::size_t vocab) {
  // Figures for a benchmark's input, which never reach a score: libm's are good enough.
  std::mt19937 random(1);
  std::normal_distribution<double> length(std::log(110.0), 0.55);
  std::vector<Record> records;
  for (std::size_t i = 0; i < count; ++i) {
    const auto tokens = static_cast<std::size_t>(std::clamp(std::exp(length(random)), 32.0, 512.0));
    records.push_back(made_up(random, tokens, vocab));
    spread_markers(records.back(), 2 + random() % 7);
    records.back().qtype = static_cast<std::uint8_t>(random() % 3);
  }
  return records;
}

std::vector<Record> even_records(std::size_t count, std::size_t tokens, std::size_t vocab) {
  std::mt19937 random(1);
  std::vector<Record> records;
  for (std::size_t i = 0; i < count; ++i) {
    records.push_back(made_up(random, tokens, vocab));
    spread_markers(records.back(), kEvenMarkers);
  }
  return records;
}

PackedBatch one_batch(std::span<const Record> records, const Graph& graph) {
  PackedBatch work;
  for (const auto& record : records) {
    // Refused only past 2^32 tokens, which no bucket's batch has.
    static_cast<void>(work.buffer.push(record.ids, record.markers, record.qtype));
  }
  const Batch batch = work.buffer.batch();
  work.costs = op_costs(graph, batch.cu, batch.markers, batch.mcu);
  return work;
}

std::vector<PackedBatch> pack_work(const std::vector<Record>& records, const Graph& graph, const StageBuckets& stage, std::size_t streams,
                                   std::size_t target) {
  std::vector<PackedBatch> all;
  Window window(streams, target);
  const auto pack_window = [&] {
    window.pack_all(stage.buckets, [&](const std::vector<std::uint64_t>& numbers) {
      std::vector<Record> chosen;
      chosen.reserve(numbers.size());
      for (const auto number : numbers) {
        chosen.push_back(records[number]);
      }
      all.push_back(one_batch(chosen, graph));
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

double WorkDone::flops() const {
  return std::accumulate(op_flops.begin(), op_flops.end(), 0.0);
}

void WorkDone::add(const WorkDone& other) {
  lane_seconds += other.lane_seconds;
  tokens += other.tokens;
  records += other.records;
  op_flops.resize(std::max(op_flops.size(), other.op_flops.size()));
  for (std::size_t i = 0; i < other.op_flops.size(); ++i) {
    op_flops[i] += other.op_flops[i];
  }
}

void Stretch::add(const Stretch& other) {
  lanes = other.lanes;
  counted.add(other.counted);
  all.add(other.all);
}

Result<Stretch> Load::run(std::span<const std::shared_ptr<Lane>> lanes, double seconds) {
  Account account(lanes.size());
  const auto begin = Clock::now();
  const auto take = [&](Lane& lane) {
    bool counts = true;
    while (account.some_count()) {
      const auto started = Clock::now();
      const PackedBatch& packed = work_[next_.fetch_add(1) % work_.size()];
      lane.host->buffer = packed.buffer;
      Bucket bucket;
      const auto failure = lane.score(bucket);
      const double took = seconds_since(started);
      if (failure) {
        account.fail(failure->error);
      } else {
        account.add(packed, took, counts);
      }
      if (counts && (failure || seconds_since(begin) + took > seconds)) {
        counts = false;
        account.lane_is_through();
      }
      if (failure) {
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < lanes.size(); ++i) {
    threads.emplace_back([&, i] { take(*lanes[i]); });
  }
  take(*lanes[0]);
  for (auto& thread : threads) {
    thread.join();
  }
  return std::move(account).close();
}

}  // namespace kime
