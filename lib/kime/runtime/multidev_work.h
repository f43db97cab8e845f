// Multidev: scheduled work and events.
#pragma once

#include "kime/runtime/multidev.h"

namespace kime {

template <Driver D>
template <class Fn>
Status Multidev<D>::run_on(const StreamOf& on, const char* label, TaskGroup group, Fn fn) {
  const std::lock_guard lock(on.stream->marking);
  if (auto alone = begin_group(on, group); !alone) {
    return alone;
  }
  auto ticket = on.stream->queue->schedule(
      [driver = on.device->driver.get(), native = on.stream->native.get(), fn = std::move(fn)] { return fn(*driver, *native); }, label,
      group);
  if (!ticket) {
    return std::move(ticket).error();
  }
  return {};
}

// What is scheduled next is of this group: a mark goes before it where that is not so of what was scheduled last.
template <Driver D>
Status Multidev<D>::begin_group(const StreamOf& on, TaskGroup group) {
  StreamState<D>& state = *on.stream;
  if (state.unmarked && state.last_group != group) {
    if (auto marked = mark_now(on); !marked) {
      return std::move(marked).error();
    }
  }
  state.last_group = group;
  state.unmarked = true;
  return {};
}

template <Driver D>
Status Multidev<D>::schedule_task(const Stream& stream, Task task, const char* label) {
  calls_.count("schedule_task");
  auto found = find(stream);
  if (!found) {
    return std::move(found).error();
  }
  auto ticket = found->stream->queue->schedule(std::move(task), label);
  if (!ticket) {
    return std::move(ticket).error();
  }
  return {};
}

template <Driver D>
Status Multidev<D>::schedule_task(const Device& device, Task task, const char* label) {
  return schedule_task(Stream{device.life, device.ordinal, 0}, std::move(task), label);
}

template <Driver D>
Status Multidev<D>::await(const Stream& stream) {
  calls_.count("await");
  auto event = all_work(stream);
  if (!event) {
    return std::move(event).error();
  }
  return sync(*event);
}

template <Driver D>
Status Multidev<D>::await(const Device& device) {
  calls_.count("await");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  const std::size_t count = streams_of(**found).size();
  Status all;
  for (std::size_t i = 0; i < count; ++i) {
    if (auto awaited = await(Stream{device.life, device.ordinal, i}); !awaited && all) {
      all = std::move(awaited);
    }
  }
  return all;
}

template <Driver D>
Result<bool> Multidev<D>::is_idle(const Stream& stream) {
  calls_.count("is_idle");
  auto found = find(stream);
  if (!found) {
    return std::move(found).error();
  }
  return idle(*found);
}

template <Driver D>
Result<bool> Multidev<D>::is_idle(const Device& device) {
  calls_.count("is_idle");
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  for (const auto& stream : streams_of(**found)) {
    if (!idle(StreamOf{*found, stream})) {
      return false;
    }
  }
  return true;
}

// What the driver has under way is known up to the last event: none is made to ask, since the failure of what went before is an event's.
template <Driver D>
bool Multidev<D>::idle(const StreamOf& on) {
  StreamState<D>& state = *on.stream;
  if (!state.queue->idle()) {
    return false;
  }
  const std::lock_guard lock(state.marking);
  if (state.marks == 0) {
    return true;
  }
  const auto reached = on.device->driver->reached(*state.native, state.marks);
  return !reached || *reached;
}

template <Driver D>
auto Multidev<D>::mark_at_end(const StreamOf& on) -> Result<MarkedPoint> {
  const std::lock_guard lock(on.stream->marking);
  return mark_now(on);
}

// With the lock of the stream's marks.
template <Driver D>
auto Multidev<D>::mark_now(const StreamOf& on) -> Result<MarkedPoint> {
  StreamState<D>& state = *on.stream;
  D* driver = on.device->driver.get();
  const Ticket number = ++state.marks;
  auto ticket =
      state.queue->schedule([driver, native = state.native.get(), number] { return driver->record(*native, number); }, "mark", kNoGroup);
  if (!ticket) {
    return std::move(ticket).error();
  }
  state.marked = *ticket;
  const bool owned = std::exchange(state.unmarked, false) && state.last_group != kNoGroup;
  if (owned) {
    auto& of_group = state.groups[state.last_group];
    of_group.marks.reserve(kMarksKept);
    if (of_group.marks.size() >= kMarksKept) {
      std::erase_if(of_group.marks, [&](Ticket mark) { return mark <= of_group.waited; });
    }
    of_group.marks.push_back(number);
  }
  return MarkedPoint{*ticket, number, owned};
}

template <Driver D>
Result<Event> Multidev<D>::mark(const StreamOf& on, const Stream& stream, TaskGroup group) {
  const std::lock_guard lock(on.stream->marking);
  // Of a group: a mark of its own, that no other group's failure can hit.
  if (auto alone = group != kNoGroup ? begin_group(on, group) : Status(); !alone) {
    return std::move(alone).error();
  }
  auto marked = mark_now(on);
  if (!marked) {
    return std::move(marked).error();
  }
  const Ticket since = group != kNoGroup ? on.stream->groups[group].waited : marked->mark;
  return Event{stream.life, on.stream->queue, stream.ordinal, stream.subordinal, marked->ticket, marked->mark, group, since};
}

// What its group has scheduled up to an event has been waited for.
template <Driver D>
void Multidev<D>::waited(const StreamOf& on, const Event& event) {
  const std::lock_guard lock(on.stream->marking);
  if (event.group != kNoGroup) {
    Ticket& waited = on.stream->groups[event.group].waited;
    waited = std::max(waited, event.mark);
  }
}

// Of the marks before an event's own that stand behind tasks of its group.
template <Driver D>
Status Multidev<D>::late_failure(const StreamOf& on, const Event& event) {
  const std::lock_guard lock(on.stream->marking);
  const auto found = on.stream->groups.find(event.group);
  if (found == on.stream->groups.end()) {
    return {};
  }
  for (const Ticket mark : found->second.marks) {
    if (mark <= event.since || mark >= event.mark) {
      continue;
    }
    if (auto reached = on.device->driver->reached(*on.stream->native, mark); !reached) {
      return std::move(reached).error();
    }
  }
  return {};
}

// Waits until a stream's device has come to a mark that its queue has passed, in slices: a driver whose device hangs does not say when the
// device has been given up. `waiter`: gives up when that one is dead.
template <Driver D>
Result<bool> Multidev<D>::finish(D& driver, StreamState<D>& stream, Ticket mark, Deadline deadline, StreamQueue* waiter) {
  for (;;) {
    const auto slice = std::chrono::steady_clock::now() + kSlice;
    const bool last = deadline && *deadline <= slice;
    auto done = driver.finish(*stream.native, mark, last ? *deadline : slice);
    if (!done || *done || last) {
      return done;
    }
    for (StreamQueue* queue : {stream.queue.get(), waiter}) {
      if (const auto dead = queue != nullptr ? queue->dead() : std::nullopt) {
        return *dead;
      }
    }
  }
}

template <Driver D>
void Multidev<D>::settle(const StreamOf& on) {
  StreamState<D>& state = *on.stream;
  MarkedPoint end;
  {
    const std::lock_guard lock(state.marking);
    end = {state.marked, state.marks, true};
  }
  const bool known = end.ticket == state.queue->last();
  if (!known) {
    const auto marked = mark_at_end(on);
    if (!marked) {
      return;
    }
    end = *marked;
  }
  if (end.mark == 0) {
    return;
  }
  auto done = state.queue->wait(end.ticket, kNoGroup, {}, StreamQueue::Failures::leave);
  if (!done && state.queue->dead()) {
    return;
  }
  done = finish(*on.device->driver, state, end.mark, {});
  if (!done && !known && !end.owned) {
    state.queue->kill(done.error());  // of work that has no event yet: whose it was cannot be told any more
  }
}

template <Driver D>
auto Multidev<D>::streams_of(DeviceState<D>& device) -> std::vector<StreamPtr> {
  const std::lock_guard lock(device.mutex);
  return device.streams;
}

template <Driver D>
Result<Event> Multidev<D>::all_work(const Stream& stream) {
  calls_.count("all_work");
  auto found = find(stream);
  if (!found) {
    return std::move(found).error();
  }
  return mark(*found, stream, kNoGroup);
}

template <Driver D>
Result<Event> Multidev<D>::all_work(const Device& device) {
  auto found = find(device);
  if (!found) {
    return std::move(found).error();
  }
  // The first stream waits for the others; its point then is that of all.
  auto gathered = make_context(device, Stream{device.life, device.ordinal, 0});
  if (!gathered) {
    return std::move(gathered).error();
  }
  const std::size_t count = streams_of(**found).size();
  for (std::size_t i = 1; i < count; ++i) {
    auto event = all_work(Stream{device.life, device.ordinal, i});
    if (!event) {
      return std::move(event).error();
    }
    if (auto waits = will_wait_for(*gathered, *event); !waits) {
      return std::move(waits).error();
    }
  }
  return all_work(Stream{device.life, device.ordinal, 0});
}

template <Driver D>
Result<Event> Multidev<D>::all_work(const Context& context) {
  calls_.count("all_work");
  auto on = stream_of(context);
  if (!on) {
    return std::move(on).error();
  }
  return mark(*on, Stream{context.state->life, context.state->device, *context.state->stream}, context.state->group);
}

template <Driver D>
auto Multidev<D>::find(const Event& event) -> Result<StreamOf> {
  if (auto checked = check_life(event.life, "an event"); !checked) {
    return std::move(checked).error();
  }
  return find(Stream{event.life, event.ordinal, event.subordinal});
}

template <Driver D>
Status Multidev<D>::sync(const Event& event) {
  auto done = sync_until(event, {});
  if (!done) {
    return std::move(done).error();
  }
  return {};
}

template <Driver D>
Result<bool> Multidev<D>::sync_until(const Event& event, Deadline deadline) {
  calls_.count("sync");
  auto found = find(event);
  if (!found) {
    return std::move(found).error();
  }
  auto passed = event.queue->wait(event.ticket, event.group, deadline);
  if ((passed && !*passed) || (!passed && event.queue->dead())) {
    return passed;
  }
  // Also after a failure: what was scheduled before it may be under way still, with the host's memory.
  auto done = finish(*found->device->driver, *found->stream, event.mark, deadline);
  if (done && !*done) {
    return done;
  }
  auto late = late_failure(*found, event);
  waited(*found, event);
  return !passed ? passed : done && !late ? std::move(late).error() : done;
}

template <Driver D>
Result<bool> Multidev<D>::is_done(const Event& event) {
  calls_.count("is_done");
  auto found = find(event);
  if (!found) {
    return std::move(found).error();
  }
  auto passed = event.queue->passed(event.ticket, event.group);
  if (!passed || !*passed) {
    return passed;
  }
  auto reached = found->device->driver->reached(*found->stream->native, event.mark);
  if (reached && !*reached) {
    if (const auto dead = event.queue->dead()) {
      return *dead;
    }
  }
  if (reached && *reached) {
    if (auto late = late_failure(*found, event); !late) {
      return std::move(late).error();
    }
  }
  return reached;
}

template <Driver D>
Status Multidev<D>::will_wait_for(const Context& context, const Event& event) {
  calls_.count("will_wait_for");
  auto on = stream_of(context);
  if (!on) {
    return std::move(on).error();
  }
  return wait_on(*on, context.state->group, event);
}

template <Driver D>
Status Multidev<D>::wait_on(const StreamOf& on, TaskGroup group, const Event& event) {
  auto other = find(event);
  if (!other) {
    return std::move(other).error();
  }
  // Between devices the host waits: on the device, it would hang where the other one hangs, though that has been given up.
  const bool here = other->device == on.device;
  const auto wait = [here, queue = on.stream->queue.get(), other = other->stream, ticket = event.ticket, mark = event.mark,
                     group = event.group](D& driver, auto& native) -> Status {
    auto passed = other->queue->wait(ticket, group, {}, StreamQueue::Failures::leave);
    if (passed && !here) {
      passed = finish(driver, *other, mark, {}, queue);
    }
    if (!passed) {
      return std::move(passed).error();
    }
    return here ? driver.wait_for(native, *other->native, mark) : Status();
  };
  return run_on(on, "wait", group, wait);
}

}  // namespace kime
