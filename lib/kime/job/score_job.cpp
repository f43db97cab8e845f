#include "kime/job/score_job.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kime/job/dispatcher.h"
#include "kime/job/job_trace.h"
#include "kime/job/lane_loop.h"
#include "kime/job/slot.h"
#include "kime/job/window.h"

namespace kime {

namespace {

/// Records in flight for each stream, and the bytes that they may hold: enough that the other streams find work while one is on the
/// longest record, and no more.
constexpr std::size_t kRecordsPerStream = 1024;
constexpr std::size_t kBytesPerStream = std::size_t{2} << 20;

using Clock = std::chrono::steady_clock;

/// The writer's rest after it has written, where there is room: else it would be woken for each batch of a fast device, and take its core
/// from a thread that computes. Nobody notices it in a pipe: a line that follows none in this time is written at once.
constexpr std::chrono::microseconds kWriterRest{500};

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
                    {.size_of = [this](auto number) { return ring_.slot(number).size(); },
                     .notice = options.notice,
                     .stopped = [&stop] { return stop.requested(); }}),
        trace_(options.trace, fleet),
        window_(streams(fleet), window_tokens(fleet), padded(fleet)) {
    summary_.scored = options.from.scored;
    summary_.failed = options.from.failed;
    summary_.tokens = options.from.tokens;
    summary_.reached = options.from;
    if (options.progress != nullptr) {
      options.progress->begin(fleet, records_read_);
    }
  }

  ScoreSummary run() {
    const auto begin = Clock::now();
    std::thread writer([this] { write(); });
    const LaneContext context{fleet_, dispatcher_, ring_, trace_, calibrations_, options_, first_buckets_, [this] { stop_reading(); }};
    std::vector<std::thread> lanes;
    lanes.reserve(streams(fleet_));
    for (std::size_t lane = 0; lane < streams(fleet_); ++lane) {
      lanes.emplace_back([&context, lane] { LaneLoop(context, lane).run(); });
    }
    read();
    dispatcher_.close(stop_.requested());
    for (auto& thread : lanes) {
      thread.join();
    }
    ring_.close();
    writer.join();
    summary_.batches = dispatcher_.batches();
    summary_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    summary_.devices = dispatcher_.stats();
    settle_end();
    return std::move(summary_);
  }

 private:
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
          all_read_ = true;
          dispatch();
          return;
      }
    }
  }

  void take(std::uint64_t number, Slot& slot, const std::optional<RecordError>& error) {
    const Record& record = slot.record;
    ++records_read_;
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
    slot.tokens = slot.size().tokens;
    window_.add(number, slot.size());
  }

  void dispatch() {
    trace_.read(reading_since_, window_.records(), window_.tokens());
    if (options_.progress != nullptr) {
      options_.progress->read(records_read_, intake_.part_read(), all_read_);
    }
    std::vector<Work> packed;
    window_.pack_all(buckets_, [this, &packed](std::vector<std::uint64_t> numbers) {
      Work& work = packed.emplace_back();
      for (const auto number : numbers) {
        const RecordSize size = ring_.slot(number).size();
        work.tokens += size.tokens;
        work.markers += size.markers;
      }
      work.numbers = std::move(numbers);
      return true;
    });
    if (!started_) {
      start(packed);
    }
    static_cast<void>(dispatcher_.push(packed));  // where nobody takes them any more, the ring says so
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

  // ---- the writer

  void write() {
    Clock::time_point rest;
    while (const std::size_t ready = ring_.wait_ready(rest)) {
      const auto begin = Trace::now();
      for (std::size_t i = 0; i < ready; ++i) {
        if (!write_one(ring_.slot(ring_.first() + i))) {
          end_early();
          return;
        }
      }
      ring_.release(ready);
      trace_.wrote(begin);
      if (options_.progress != nullptr) {
        options_.progress->wrote(summary_.scored, summary_.failed, summary_.tokens);
      }
      if (ring_.ready() == 0 && !flush()) {
        end_early();
        return;
      }
      rest = Clock::now() + kWriterRest;
    }
    // A failure of the last flush shows in the output's state.
    static_cast<void>(flush());
  }

  // False when this was the last line.
  bool write_one(const Slot& slot) {
    ++(slot.failed ? summary_.failed : summary_.scored);
    if (!slot.failed) {
      summary_.tokens += slot.tokens;
      summary_.labels.add(slot.record, slot.right);
    }
    after_ = slot.where.after;
    if (slot.failed && options_.on_error == OnError::skip) {
      return output_.held() > 0 || tell();
    }
    if (output_.append(slot.text) != OutputState::ok) {
      return false;
    }
    if (slot.failed && options_.on_error == OnError::stop) {
      stopped_by_error_ = flush();
      return false;
    }
    return output_.held() > 0 || tell();
  }

  [[nodiscard]] bool flush() { return output_.flush() == OutputState::ok && tell(); }

  // All lines so far are with the output.
  [[nodiscard]] bool tell() {
    summary_.reached = {.output = options_.from.output + output_.written(),
                        .input = after_,
                        .scored = summary_.scored,
                        .failed = summary_.failed,
                        .tokens = summary_.tokens};
    refused_ = options_.reached && !options_.reached(summary_.reached);
    return !refused_;
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
        if (refused_) {
          summary_.end = ScoreEnd::output_failed;
          return;
        }
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
  Ring ring_;
  Dispatcher dispatcher_;
  JobTrace trace_;

  // The reader's.
  Window window_;
  std::string input_failure_;
  bool started_ = false;
  std::uint64_t records_read_ = options_.from.scored + options_.from.failed;
  bool all_read_ = false;
  std::vector<Bucket> first_buckets_;  ///< The lanes read it once they have pulled a batch.
  std::uint64_t reading_since_ = Trace::now();

  // The writer's, until it is joined.
  ScoreSummary summary_;
  InputPlace after_ = options_.from.input;  ///< Of the last record.
  bool refused_ = false;                    ///< By the listener for how far the job is.
  bool stopped_by_error_ = false;
  bool ended_early_ = false;
};

}  // namespace

ScoreSummary score(Intake& intake, Fleet& fleet, const StageBuckets& stage, std::span<const Calibration> calibrations,
                   const ScoreOptions& options, Output& output, Stop& stop) {
  return Job(intake, fleet, stage, calibrations, options, output, stop).run();
}

}  // namespace kime
