#include "kime/job/score_job.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kime/job/bounded_queue.h"
#include "kime/job/in_flight.h"
#include "kime/job/score_lines.h"
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

using Numbers = std::vector<std::uint64_t>;

class Job {
 public:
  Job(Intake& intake, std::vector<Executor<CpuBackend>> executors, const StageBuckets& stage, const Calibration& calibration,
      const ScoreOptions& options, Output& output, Stop& stop)
      : intake_(intake),
        executors_(std::move(executors)),
        buckets_(stage.buckets),
        calibration_(calibration),
        options_(options),
        output_(output),
        stop_(stop),
        ring_(kRecordsPerStream * std::max<std::size_t>(2, options.streams), kBytesPerStream * std::max<std::size_t>(2, options.streams)),
        queue_(2 * options.streams),
        window_(options.streams) {}

  ScoreSummary run() {
    const auto begin = std::chrono::steady_clock::now();
    std::thread writer([this] { write(); });
    std::vector<std::thread> streams;
    streams.reserve(executors_.size());
    for (auto& executor : executors_) {
      streams.emplace_back([this, &executor] { stream(executor); });
    }
    read();
    queue_.close();
    for (auto& thread : streams) {
      thread.join();
    }
    ring_.close();
    writer.join();
    summary_.batches = batches_;
    summary_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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
    window_.pack_all(buckets_, [this](Numbers numbers) { return !stop_.requested() && queue_.push(std::move(numbers)); });
  }

  // ---- a stream

  void stream(Executor<CpuBackend>& executor) {
    ScoreLines lines(calibration_, options_.emit);
    BatchBuffer buffer;
    Outputs outputs;
    while (const auto numbers = queue_.pop()) {
      buffer.clear();
      Status built;
      for (const auto number : *numbers) {
        const Record& record = ring_.slot(number).record;
        if (auto pushed = buffer.push(record.ids, record.markers, record.qtype); !pushed) {
          built = std::move(pushed);
        }
      }
      const Batch batch = buffer.batch();
      std::optional<Error> failure;
      if (!built) {
        failure = std::move(built).error();
      } else if (auto ran = executor.run(batch, outputs); !ran) {
        failure = std::move(ran).error();
      }
      for (std::size_t i = 0; i < numbers->size(); ++i) {
        finish(ring_.slot((*numbers)[i]), batch, i, outputs, failure, lines);
      }
      ++batches_;
      ring_.done(*numbers);
    }
  }

  static void finish(Slot& slot, const Batch& batch, std::size_t index, const Outputs& outputs, const std::optional<Error>& failure,
                     ScoreLines& lines) {
    if (failure) {
      slot.failed = true;
      append_error_line(slot.record, slot.where, record_error(*failure), slot.text);
      return;
    }
    const std::span<const float> logits = std::span(outputs.logits).subspan(batch.mcu[index], batch.mcu[index + 1] - batch.mcu[index]);
    slot.failed = !lines.append(slot.record, slot.where, logits, outputs.act[index], slot.text);
  }

  // ---- the writer

  void write() {
    while (const std::size_t ready = ring_.wait_ready()) {
      for (std::size_t i = 0; i < ready; ++i) {
        if (!write_one(ring_.slot(ring_.first() + i))) {
          end_early();
          return;
        }
      }
      ring_.release(ready);
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
    stop_.request();
    queue_.abort();
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
    } else if (!input_failure_.empty()) {
      summary_.end = ScoreEnd::input_failed;
      summary_.message = input_failure_;
    } else if (stop_.requested() && !ended_early_) {
      summary_.end = ScoreEnd::stopped;
    }
  }

  Intake& intake_;
  std::vector<Executor<CpuBackend>> executors_;
  const std::vector<Bucket>& buckets_;
  const Calibration& calibration_;
  const ScoreOptions& options_;
  Output& output_;
  Stop& stop_;
  InFlight<Slot> ring_;
  BoundedQueue<Numbers> queue_;

  // The reader's.
  Window window_;
  std::string input_failure_;

  std::atomic<std::uint64_t> batches_ = 0;

  // The writer's, until it is joined.
  ScoreSummary summary_;
  bool stopped_by_error_ = false;
  bool ended_early_ = false;
};

}  // namespace

Result<ScoreSummary> score(Intake& intake, const Program<CpuBackend>& program, const StageBuckets& stage, const Calibration& calibration,
                           const ScoreOptions& options, Output& output, Stop& stop) {
  auto executors = make_executors(program, stage, options.streams);
  if (!executors) {
    return std::move(executors).error();
  }
  return Job(intake, *std::move(executors), stage, calibration, options, output, stop).run();
}

}  // namespace kime
