#include "kime/job/lane_loop.h"

#include <utility>

namespace kime {

void LaneLoop::run() {
  Work work;
  for (;;) {
    switch (job_.dispatcher.pull(index_, work)) {
      case Dispatcher::Next::work:
        take(std::move(work));
        break;
      case Dispatcher::Next::repair:
        if (!lane_.repair(job_.dispatcher.retired())) {
          if (job_.dispatcher.leave(index_)) {
            job_.last_left();
          }
          return;
        }
        job_.dispatcher.repaired(index_, lane_.devices());
        break;
      case Dispatcher::Next::end:
        return;
    }
  }
}

void LaneLoop::take(Work work) {
  const auto begin = Trace::now();
  Bucket bucket;
  std::optional<LaneFailure> failure;
  {
    const JobProgress::Working working(job_.options.progress, lane_.devices());
    failure = score(work, bucket);
  }
  const auto end = Trace::now();
  const double seconds = static_cast<double>(end - begin) * 1e-9;
  job_.trace.ran(index_, failure.has_value(), begin, end, work.numbers.size(), work.tokens);
  if (failure) {
    const auto given_up = job_.dispatcher.failed(index_, std::move(work), *failure, seconds);
    for (const auto number : given_up) {
      give_up(job_.ring.slot(number), failure->error);
    }
    job_.ring.done(given_up);
    return;
  }
  auto unscored = lane_.host->unscored.begin();
  for (std::size_t i = 0; i < work.numbers.size(); ++i) {
    Slot& slot = job_.ring.slot(work.numbers[i]);
    if (unscored != lane_.host->unscored.end() && unscored->sequence == i) {
      give_up(slot, (unscored++)->error);
    } else {
      finish(slot, i);
    }
  }
  job_.dispatcher.scored(index_, work, bucket, seconds, lane_.host->rescued);
  job_.ring.done(work.numbers);
}

std::optional<LaneFailure> LaneLoop::score(const Work& work, Bucket& bucket) {
  if (!prepared_) {
    prepared_ = true;
    if (auto failure = lane_.prepare(job_.first_buckets)) {
      return failure;
    }
  }
  lane_.host->buffer.clear();
  for (const auto number : work.numbers) {
    const Record& record = job_.ring.slot(number).record;
    if (auto pushed = lane_.host->buffer.push(record.ids, record.markers, record.qtype); !pushed) {
      return LaneFailure{std::move(pushed).error(), lane_.devices()[0], false};
    }
  }
  return lane_.score(bucket);
}

void LaneLoop::give_up(Slot& slot, const Error& error) {
  slot.failed = true;
  append_error_line(slot.record, slot.where, record_error(error), slot.text);
}

void LaneLoop::finish(Slot& slot, std::size_t index) {
  const Batch batch = lane_.host->buffer.batch();
  for (std::size_t model = 0; model < scores_.size(); ++model) {
    const Outputs& outputs = lane_.host->outputs[model];
    scores_[model] = {std::span(outputs.logits).subspan(batch.mcu[index], batch.mcu[index + 1] - batch.mcu[index]), outputs.act[index]};
  }
  slot.failed = !lines_.append(slot.record, slot.where, scores_, slot.text);
}

}  // namespace kime
