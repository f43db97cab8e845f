#include "kime/backend/cuda/marks.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace kime::cuda {

Status Marks::record(StreamHandle stream, Ticket ticket, EventPtr source) {
  const std::lock_guard lock(mutex_);
  while (!pending_.empty()) {  // nobody need ever ask for them
    auto settled = settle_first();
    if (settled && !*settled) {
      break;
    }
  }
  auto event = free_event();
  Status recorded = event ? (*event)->record(stream) : Status(event.error());
  if (!recorded) {
    failed_.emplace(ticket, recorded.error());
    return recorded;
  }
  pending_[ticket] = {*std::move(event), std::move(source)};
  return {};
}

Result<EventPtr> Marks::free_event() {
  if (free_.empty()) {
    return Event::make(context_);
  }
  EventPtr event = std::move(free_.back());
  free_.pop_back();
  return event;
}

// Asks for the oldest mark; one that has come or failed is taken off. False: it is still to come.
Result<bool> Marks::settle_first() {
  const auto first = pending_.begin();
  auto [event, source] = first->second;
  auto come = event->query();
  if (come && !*come) {
    return come;
  }
  if (come && source) {  // whatever is still to come there was recorded again since, for a later mark
    if (auto given = source->query(); !given) {
      come = std::move(given).error();
    }
  }
  if (!come) {
    failed_.emplace(first->first, come.error());
  }
  reached_ = first->first;
  pending_.erase(first);
  if (event.use_count() == 1) {  // else somebody waits for it; nobody gets it from here any more
    free_.push_back(std::move(event));
  }
  return come;
}

Result<bool> Marks::state_of(Ticket ticket) {
  while (reached_ < ticket && !pending_.empty() && pending_.begin()->first <= ticket) {
    auto settled = settle_first();
    if (settled && !*settled) {
      return false;
    }
  }
  if (const auto found = failed_.find(ticket); found != failed_.end()) {
    return found->second;
  }
  return reached_ >= ticket;
}

Result<bool> Marks::reached(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  return state_of(ticket);
}

Result<bool> Marks::finish(Ticket ticket, Deadline deadline) {
  // The driver cannot wait until a time: it is asked, first often, then at a share of what it has taken so far.
  const auto begin = std::chrono::steady_clock::now();
  constexpr std::chrono::microseconds kShortest(5);
  constexpr std::chrono::microseconds kLongest(500);
  for (;;) {
    auto done = reached(ticket);
    const auto now = std::chrono::steady_clock::now();
    if (!done || *done || (deadline && now >= *deadline)) {
      return done;
    }
    auto rest = std::clamp<std::chrono::steady_clock::duration>((now - begin) / 16, kShortest, kLongest);
    if (deadline) {
      rest = std::min(rest, *deadline - now);
    }
    std::this_thread::sleep_for(rest);
  }
}

Result<EventPtr> Marks::pending(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  auto come = state_of(ticket);
  if (!come) {
    return std::move(come).error();
  }
  if (*come) {
    return EventPtr();
  }
  const auto found = pending_.find(ticket);
  if (found == pending_.end()) {
    return Error(ErrorKind::device, "a wait for a point of a stream that was never recorded");
  }
  return found->second.event;
}

}  // namespace kime::cuda
