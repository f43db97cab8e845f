#include "kime/job/score_job.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kime/job/dispatcher.h"
#include "kime/job/in_flight.h"
#include "kime/job/window.h"

namespace kime {

namespace {

/// Records in flight for each stream, and the bytes that they may hold: enough that the other streams find work while one is on the
/// longest record, and no more.
constexpr std::size_t kRecordsPerStream = 1024;
constexpr std::size_t kBytesPerStream = std::size_t{2} << 20;
/// Bytes: a slot gives back what is larger. Else every slot would in the end hold the longest record that it ever had, and memory would
/// creep up with the length of the job.
constexpr std::size_t kMostKept = 512;

struct Slot {
  Record record;
  Where where;
  std::string text;  ///< The line, once it is known.
  std::uint32_t tokens = 0;
  bool failed = false;

  void reset() {
    text.clear();
    failed = false;
    tokens = 0;
    shrink(record.ids);
    shrink(record.markers);
    shrink(record.id);
    shrink(record.kept);
    shrink(text);
  }

 private:
  template <class Container>
  static void shrink(Container& container) {
    if (container.capacity() * sizeof(typename Container::value_type) > kMostKept) {
      Container().swap(container);
    }
  }
};

using Clock = std::chrono::steady_clock;

std::size_t streams(const Fleet& fleet) {
  return fleet.lanes().size();
}

// Enough for each stream to have some batches waiting.
std::size_t window_tokens(const Fleet& fleet) {
  std::size_t tokens = 0;
  for (const auto& device : fleet.devices()) {
    tokens += 8 * device.target * device.streams;
  }
  return tokens;
}

bool padded(const Fleet& fleet) {
  return std::ranges::any_of(fleet.devices(), &FleetDevice::padded);
}

class Job {
 public:
  Job(Intake& intake, Fleet& fleet, const StageBuckets& stage, std::span<const Calibration> calibrations, const ScoreOptions& options,
      Output& output, Stop& stop)
      : intake_(intake),
        fleet_(fleet),
        buckets_(stage.buckets),
        calibrations_(calibrations),
        options_(options),
        output_(output),
        stop_(stop),
        ring_(kRecordsPerStream * std::max<std::size_t>(2, streams(fleet)), kBytesPerStream * std::max<std::size_t>(2, streams(fleet))),
        dispatcher_(fleet.devices(), fleet.lanes(), stage.buckets,
                    {.size_of = [this](auto number) { return size_of(number); }, .notice = options.notice}),
        window_(streams(fleet), window_tokens(fleet), padded(fleet)) {
    if (options.trace != nullptr) {
      make_rows(*options.trace);
    }
  }

  ScoreSummary run() {
    const auto begin = Clock::now();
    std::thread writer([this] { write(); });
    std::vector<std::thread> lanes;
    lanes.reserve(streams(fleet_));
    for (std::size_t lane = 0; lane < streams(fleet_); ++lane) {
      lanes.emplace_back([this, lane] { LaneLoop(*this, lane).run(); });
    }
    read();
    dispatcher_.close(stop_.requested());
    for (auto& thread : lanes) {
      thread.join();
    }
    ring_.close();
    writer.join();
    summary_.batches = batches_;
    summary_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    summary_.devices = dispatcher_.stats();
    settle_end();
    return std::move(summary_);
  }

 private:
  // Rows of the trace.
  struct Rows {
    std::size_t reads = 0;
    std::size_t writes = 0;
    std::vector<std::size_t> lanes;
  };

  void make_rows(Trace& trace) {
    rows_.reads = trace.row("reads");
    rows_.writes = trace.row("writes");
    std::vector<std::size_t> streams_of(fleet_.devices().size());
    for (const auto& lane : fleet_.lanes()) {
      const std::size_t device = lane->devices()[0];
      rows_.lanes.push_back(trace.row(fleet_.devices()[device].name + "." + std::to_string(streams_of[device]++) + " batches"));
    }
  }

  RecordSize size_of(std::uint64_t number) {
    const Record& record = ring_.slot(number).record;
    return {static_cast<std::uint32_t>(record.ids.size()), static_cast<std::uint32_t>(record.markers.size())};
  }

  // ---- the reader, on the caller's thread

  void read() {
    std::optional<RecordError> error;
    for (;;) {
      // What is held back goes on its way before the reader may wait: for input, or for the writer to make room.
      if (!window_.empty() && (window_.full() || ring_.full() || !intake_.ready())) {
        dispatch();
      }
      std::uint64_t number = 0;
      if (stop_.requested() || !ring_.acquire(number)) {
        return;
      }
      Slot& slot = ring_.slot(number);
      slot.reset();
      switch (intake_.next(slot.record, slot.where, error)) {
        case Intake::Next::record:
          take(number, slot, error);
          break;
        case Intake::Next::stopped:  // while waiting, and before that what was held was handed on
          return;
        case Intake::Next::broken:
          input_failure_ = intake_.failure().text();
          [[fallthrough]];
        case Intake::Next::end:
          dispatch();
          return;
      }
    }
  }

  void take(std::uint64_t number, Slot& slot, const std::optional<RecordError>& error) {
    const Record& record = slot.record;
    if (error) {
      slot.failed = true;
      append_error_line(record, slot.where, *error, slot.text);
    }
    ring_.weigh(number, sizeof(std::uint32_t) * (record.ids.size() + record.markers.size()) + record.id.size() + record.kept.size() +
                            slot.text.size() + sizeof(Slot));
    if (error) {
      ring_.done({&number, 1});
      return;
    }
    slot.tokens = static_cast<std::uint32_t>(record.ids.size());
    window_.add(number, {slot.tokens, static_cast<std::uint32_t>(record.markers.size())});
  }

  void dispatch() {
    if (options_.trace != nullptr) {
      options_.trace->span(rows_.reads, "read", reading_since_, Trace::now(), window_.records(), window_.tokens());
    }
    std::vector<Work> packed;
    window_.pack_all(buckets_, [this, &packed](std::vector<std::uint64_t> numbers) {
      Work& work = packed.emplace_back();
      for (const auto number : numbers) {
        const RecordSize size = size_of(number);
        work.tokens += size.tokens;
        work.markers += size.markers;
      }
      work.numbers = std::move(numbers);
      return true;
    });
    if (!started_) {
      start(packed);
    }
    for (auto& work : packed) {
      if (stop_.requested() || !dispatcher_.push(std::move(work))) {
        break;
      }
    }
    reading_since_ = Trace::now();
  }

  // What the first window needs is compiled once, before streams link it.
  void start(const std::vector<Work>& packed) {
    started_ = true;
    for (const auto& work : packed) {
      const Bucket* bucket = find_bucket(buckets_, work.tokens, work.numbers.size(), work.markers);
      if (bucket != nullptr && std::ranges::find(first_buckets_, *bucket) == first_buckets_.end()) {
        first_buckets_.push_back(*bucket);
      }
    }
    if (!fleet_.prepare(first_buckets_)) {
      first_buckets_.clear();  // the batches that need them say what is wrong
    }
  }

  // ---- a lane

  class LaneLoop {
   public:
    LaneLoop(Job& job, std::size_t index)
        : job_(job),
          index_(index),
          lane_(*job.fleet_.lanes()[index]),
          lines_(job.calibrations_, job.options_.emit, job.options_.ensemble),
          scores_(job.fleet_.models()) {}

    void run() {
      Work work;
      for (;;) {
        switch (job_.dispatcher_.pull(index_, work)) {
          case Dispatcher::Next::work:
            take(std::move(work));
            break;
          case Dispatcher::Next::repair:
            if (!lane_.repair(job_.dispatcher_.retired())) {
              if (job_.dispatcher_.leave(index_)) {
                job_.stop_reading();
              }
              return;
            }
            job_.dispatcher_.repaired(index_, lane_.devices());
            break;
          case Dispatcher::Next::end:
            return;
        }
      }
    }

   private:
    void take(Work work) {
      const auto begin = Trace::now();
      Bucket bucket;
      const auto failure = score(work, bucket);
      const auto end = Trace::now();
      const double seconds = static_cast<double>(end - begin) * 1e-9;
      if (job_.options_.trace != nullptr) {
        job_.options_.trace->span(job_.rows_.lanes[index_], failure ? "failed batch" : "batch", begin, end, work.numbers.size(),
                                  work.tokens);
      }
      ++job_.batches_;
      if (failure) {
        const auto given_up = job_.dispatcher_.failed(index_, std::move(work), *failure, seconds);
        for (const auto number : given_up) {
          Slot& slot = job_.ring_.slot(number);
          slot.failed = true;
          append_error_line(slot.record, slot.where, record_error(failure->error), slot.text);
        }
        job_.ring_.done(given_up);
        return;
      }
      for (std::size_t i = 0; i < work.numbers.size(); ++i) {
        finish(job_.ring_.slot(work.numbers[i]), i);
      }
      job_.dispatcher_.scored(index_, work, bucket, seconds);
      job_.ring_.done(work.numbers);
    }

    std::optional<LaneFailure> score(const Work& work, Bucket& bucket) {
      if (!prepared_) {
        prepared_ = true;
        if (auto failure = lane_.prepare(job_.first_buckets_)) {
          return failure;
        }
      }
      lane_.host->buffer.clear();
      for (const auto number : work.numbers) {
        const Record& record = job_.ring_.slot(number).record;
        if (auto pushed = lane_.host->buffer.push(record.ids, record.markers, record.qtype); !pushed) {
          return LaneFailure{std::move(pushed).error(), lane_.devices()[0], false};
        }
      }
      return lane_.score(bucket);
    }

    void finish(Slot& slot, std::size_t index) {
      const Batch batch = lane_.host->buffer.batch();
      for (std::size_t model = 0; model < scores_.size(); ++model) {
        const Outputs& outputs = lane_.host->outputs[model];
        scores_[model] = {std::span(outputs.logits).subspan(batch.mcu[index], batch.mcu[index + 1] - batch.mcu[index]), outputs.act[index]};
      }
      slot.failed = !lines_.append(slot.record, slot.where, scores_, slot.text);
    }

    Job& job_;
    std::size_t index_;
    Lane& lane_;
    ScoreLines lines_;
    std::vector<RecordScores> scores_;
    bool prepared_ = false;
  };

  // ---- the writer

  void write() {
    while (const std::size_t ready = ring_.wait_ready()) {
      const auto begin = Trace::now();
      for (std::size_t i = 0; i < ready; ++i) {
        if (!write_one(ring_.slot(ring_.first() + i))) {
          end_early();
          return;
        }
      }
      ring_.release(ready);
      if (options_.trace != nullptr) {
        options_.trace->span(rows_.writes, "write", begin, Trace::now());
      }
      if (ring_.ready() == 0 && output_.flush() != OutputState::ok) {
        end_early();
        return;
      }
    }
    // A failure of the last flush shows in the output's state.
    static_cast<void>(output_.flush());
  }

  // False when this was the last line.
  bool write_one(const Slot& slot) {
    ++(slot.failed ? summary_.failed : summary_.scored);
    summary_.tokens += slot.failed ? 0 : slot.tokens;
    if (slot.failed && options_.on_error == OnError::skip) {
      return true;
    }
    if (output_.append(slot.text) != OutputState::ok) {
      return false;
    }
    if (slot.failed && options_.on_error == OnError::stop) {
      stopped_by_error_ = output_.flush() == OutputState::ok;
      return false;
    }
    return true;
  }

  // Nothing more will be written: nobody need read or score any more.
  void end_early() {
    ended_early_ = true;
    dispatcher_.abort();
    stop_reading();
  }

  // Wakes a reader that waits for input or for room.
  void stop_reading() {
    stop_.request();
    ring_.stop();
  }

  // After all threads have ended.
  void settle_end() {
    switch (output_.state()) {
      case OutputState::closed:
        summary_.end = ScoreEnd::output_closed;
        return;
      case OutputState::full:
      case OutputState::failed:
        summary_.end = ScoreEnd::output_failed;
        summary_.message = output_.message();
        return;
      case OutputState::ok:
        break;
    }
    if (stopped_by_error_) {
      summary_.end = ScoreEnd::complete;
    } else if (dispatcher_.lost()) {
      summary_.end = ScoreEnd::devices_lost;
      summary_.message = "no device is left: " + dispatcher_.why();
    } else if (!input_failure_.empty()) {
      summary_.end = ScoreEnd::input_failed;
      summary_.message = input_failure_;
    } else if (stop_.requested() && !ended_early_) {
      summary_.end = ScoreEnd::stopped;
    }
  }

  Intake& intake_;
  Fleet& fleet_;
  const std::vector<Bucket>& buckets_;
  std::span<const Calibration> calibrations_;
  const ScoreOptions& options_;
  Output& output_;
  Stop& stop_;
  InFlight<Slot> ring_;
  Dispatcher dispatcher_;
  Rows rows_;

  // The reader's.
  Window window_;
  std::string input_failure_;
  bool started_ = false;
  std::vector<Bucket> first_buckets_;  ///< The lanes read it once they have pulled a batch.
  std::uint64_t reading_since_ = Trace::now();

  std::atomic<std::uint64_t> batches_ = 0;

  // The writer's, until it is joined.
  ScoreSummary summary_;
  bool stopped_by_error_ = false;
  bool ended_early_ = false;
};

}  // namespace

ScoreSummary score(Intake& intake, Fleet& fleet, const StageBuckets& stage, std::span<const Calibration> calibrations,
                   const ScoreOptions& options, Output& output, Stop& stop) {
  return Job(intake, fleet, stage, calibrations, options, output, stop).run();
}

}  // namespace kime
