// The fake driver: streams and events.
#include <algorithm>

#include "kime/backend/cuda/errors.h"
#include "tests/cuda/fake/fake_state.h"

namespace kime::test {

namespace {

// The thread of a stream.
void work_through(FakeCudaState& state, const std::shared_ptr<FakeStreamState>& stream) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.moved.wait(lock, [&] { return (stream->closing && stream->work.empty()) || (!state.held && !stream->work.empty()); });
    if (stream->work.empty()) {
      return;
    }
    FakeWork work = std::move(stream->work.front());
    stream->work.pop_front();
    stream->busy = true;
    const bool poisoned = stream->context->dying != Code::success;
    lock.unlock();
    const Code code = poisoned ? Code::success : work();
    work = nullptr;
    lock.lock();
    stream->busy = false;
    if (cuda::is_sticky(code)) {
      state.poison(lock, stream->context, code);
    }
    state.moved.notify_all();
  }
}

std::shared_ptr<FakeEvent> find_event(const FakeCall& call, cuda::EventHandle event) {
  const auto found = call.state.events.find(number(event));
  return found == call.state.events.end() ? nullptr : found->second;
}

void add_streams(cuda::DriverApi& api) {
  api.stream_create = [](cuda::StreamHandle* stream, unsigned /*flags*/) {
    return fake_call("cuStreamCreate", FakeNeeds::context, [&](FakeCall& call) {
      auto made = std::make_shared<FakeStreamState>();
      made->id = call.state.new_handle();
      made->context = call.context;
      call.state.streams[made->id] = made;
      made->thread = std::thread([&state = call.state, made] { work_through(state, made); });
      *stream = handle<cuda::StreamHandle>(made->id);
      return Code::success;
    });
  };
  api.stream_destroy = [](cuda::StreamHandle stream) {
    return fake_call("cuStreamDestroy", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.find_stream(stream);
      if (!found) {
        return Code::invalid_handle;
      }
      found->closing = true;  // what is left is still done
      call.state.ending.push_back(std::move(found->thread));
      call.state.streams.erase(found->id);
      call.state.moved.notify_all();
      return Code::success;
    });
  };
  api.stream_synchronize = [](cuda::StreamHandle stream) {
    return fake_call("cuStreamSynchronize", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.find_stream(stream);
      if (!found || call.refused_in_capture()) {
        return found ? Code::stream_capture_unsupported : Code::invalid_handle;
      }
      return call.wait(*found->context, [&] { return found->work.empty() && !found->busy; });
    });
  };
  api.stream_wait_event = [](cuda::StreamHandle stream, cuda::EventHandle event, unsigned /*flags*/) {
    return fake_call("cuStreamWaitEvent", FakeNeeds::context, [&](FakeCall& call) {
      const auto on = find_event(call, event);
      const auto found = call.find_stream(stream);
      if (!on || !found) {
        return Code::invalid_handle;
      }
      if (on->captured || found->capture) {
        call.state.violation("a wait between a capture and what is outside of it");
        return Code::stream_capture_isolation;
      }
      return call.enqueue(stream, [&state = call.state, on, here = found->context, until = on->recorded] {
        std::unique_lock lock(state.mutex);
        state.moved.wait(lock,
                         [&] { return on->completed >= until || on->context->sticky != Code::success || here->dying != Code::success; });
        return Code::success;
      });
    });
  };
}

void add_events(cuda::DriverApi& api) {
  api.event_create = [](cuda::EventHandle* event, unsigned /*flags*/) {
    return fake_call("cuEventCreate", FakeNeeds::context, [&](FakeCall& call) {
      const std::uint64_t id = call.state.new_handle();
      call.state.events[id] = std::make_shared<FakeEvent>();
      call.state.events[id]->context = call.context;
      *event = handle<cuda::EventHandle>(id);
      return Code::success;
    });
  };
  api.event_destroy = [](cuda::EventHandle event) {
    return fake_call("cuEventDestroy", FakeNeeds::context,
                     [&](FakeCall& call) { return call.state.events.erase(number(event)) == 1 ? Code::success : Code::invalid_handle; });
  };
  api.event_record = [](cuda::EventHandle event, cuda::StreamHandle stream) {
    return fake_call("cuEventRecord", FakeNeeds::context, [&](FakeCall& call) {
      const auto on = find_event(call, event);
      const auto found = call.find_stream(stream);
      if (!on || !found || on->context != found->context) {
        return Code::invalid_handle;
      }
      if (found->capture) {
        on->captured = true;
        return call.enqueue(stream, [] { return Code::success; });
      }
      on->captured = false;
      const std::uint64_t number = ++on->recorded;
      const Code late = call.late.value_or(Code::success);
      call.late.reset();
      return call.enqueue(stream, [&state = call.state, on, number, late] {
        const std::lock_guard lock(state.mutex);
        on->completed = number;
        on->failed = late;
        state.moved.notify_all();
        return late;
      });
    });
  };
  api.event_query = [](cuda::EventHandle event) {
    return fake_call("cuEventQuery", FakeNeeds::context, [&](FakeCall& call) {
      const auto on = find_event(call, event);
      if (!on || call.refused_in_capture()) {
        return on ? Code::stream_capture_unsupported : Code::invalid_handle;
      }
      if (on->captured || on->context->sticky != Code::success) {
        return on->captured ? Code::captured_event : on->context->sticky;
      }
      return on->completed < on->recorded ? Code::not_ready : on->failed;
    });
  };
  api.event_synchronize = [](cuda::EventHandle event) {
    return fake_call("cuEventSynchronize", FakeNeeds::context, [&](FakeCall& call) {
      const auto on = find_event(call, event);
      if (!on || call.refused_in_capture()) {
        return on ? Code::stream_capture_unsupported : Code::invalid_handle;
      }
      if (on->captured) {
        return Code::captured_event;
      }
      const Code code = call.wait(*on->context, [&, until = on->recorded] { return on->completed >= until; });
      return code == Code::success ? on->failed : code;
    });
  };
}

}  // namespace

Code FakeCall::wait(const FakeContext& of, const std::function<bool()>& done) const {
  ++state.waiters;
  state.moved.notify_all();
  state.moved.wait(lock, [&] { return of.sticky != Code::success || done(); });
  --state.waiters;
  return of.sticky;
}

bool FakeCall::refused_in_capture() const {
  bool refused = false;
  for (auto& [id, stream] : state.streams) {
    if (auto& capture = stream->capture) {
      const bool mine = capture->thread == std::this_thread::get_id() && capture->mode != cuda::CaptureMode::relaxed;
      if (mine || capture->mode == cuda::CaptureMode::global) {
        capture->invalidated = true;
        refused = true;
      }
    }
  }
  if (refused) {
    state.violation(std::string(name) + " inside a capture");
  }
  return refused;
}

std::shared_ptr<FakeStreamState> FakeCall::find_stream(cuda::StreamHandle stream) const {
  const auto found = state.streams.find(number(stream));
  if (found == state.streams.end()) {
    return nullptr;
  }
  if (found->second->context != context) {
    state.violation(std::string(name) + " on a stream of a context that is not current");
    return nullptr;
  }
  return found->second;
}

Code FakeCall::enqueue(cuda::StreamHandle stream, FakeWork work) const {
  const auto found = find_stream(stream);
  if (!found) {
    return Code::invalid_handle;
  }
  if (late) {
    work = [code = *late] { return code; };
  }
  if (auto& capture = found->capture) {
    if (capture->invalidated) {
      return Code::stream_capture_invalidated;
    }
    capture->graph.nodes.push_back(std::move(work));
    return Code::success;
  }
  found->work.push_back(std::move(work));
  state.moved.notify_all();
  return Code::success;
}

void add_fake_streams(cuda::DriverApi& api) {
  add_streams(api);
  add_events(api);
}

}  // namespace kime::test
