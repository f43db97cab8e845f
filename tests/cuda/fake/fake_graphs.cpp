// The fake driver: captures and graphs. A capture is of one stream: a fork to a second one is refused.
#include "kime/backend/cuda/errors.h"
#include "tests/cuda/fake/fake_state.h"

namespace kime::test {

namespace {

void add_captures(cuda::DriverApi& api) {
  api.stream_begin_capture = [](cuda::StreamHandle stream, cuda::CaptureMode mode) {
    return fake_call("cuStreamBeginCapture", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.find_stream(stream);
      if (!found || found->capture) {
        return found ? Code::illegal_state : Code::invalid_handle;
      }
      found->capture.emplace();
      found->capture->thread = std::this_thread::get_id();
      found->capture->mode = mode;
      found->capture->graph.context = call.context;
      return Code::success;
    });
  };
  api.stream_end_capture = [](cuda::StreamHandle stream, cuda::GraphHandle* graph) {
    return fake_call("cuStreamEndCapture", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.find_stream(stream);
      *graph = nullptr;
      if (!found || !found->capture) {
        return found ? Code::illegal_state : Code::invalid_handle;
      }
      if (found->capture->mode != cuda::CaptureMode::relaxed && found->capture->thread != std::this_thread::get_id()) {
        return Code::stream_capture_wrong_thread;
      }
      const FakeCapture capture = *std::exchange(found->capture, std::nullopt);
      if (capture.invalidated) {
        return Code::stream_capture_invalidated;
      }
      const std::uint64_t id = call.state.new_handle();
      call.state.graphs[id] = capture.graph;
      *graph = handle<cuda::GraphHandle>(id);
      return Code::success;
    });
  };
  api.stream_is_capturing = [](cuda::StreamHandle stream, cuda::CaptureStatus* status) {
    return fake_call("cuStreamIsCapturing", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.find_stream(stream);
      if (!found) {
        return Code::invalid_handle;
      }
      *status = !found->capture               ? cuda::CaptureStatus::none
                : found->capture->invalidated ? cuda::CaptureStatus::invalidated
                                              : cuda::CaptureStatus::active;
      return Code::success;
    });
  };
}

// The nodes of a graph one after another; the first that fails ends it.
FakeWork replay(FakeCudaState& state, const std::shared_ptr<FakeExec>& exec) {
  return [&state, exec] {
    Code code = Code::success;
    for (const auto& node : exec->nodes) {
      code = node();
      if (code != Code::success) {
        break;
      }
    }
    const std::lock_guard lock(state.mutex);
    --exec->in_flight;
    return code;
  };
}

void add_execs(cuda::DriverApi& api) {
  api.graph_instantiate = [](cuda::GraphExecHandle* exec, cuda::GraphHandle graph, unsigned long long /*flags*/) {
    return fake_call("cuGraphInstantiateWithFlags", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.state.graphs.find(number(graph));
      if (found == call.state.graphs.end() || call.refused_in_capture()) {
        return found == call.state.graphs.end() ? Code::invalid_value : Code::stream_capture_unsupported;
      }
      const auto gpu = static_cast<std::size_t>(call.context->gpu);
      if (call.state.config.graph_bytes > call.state.config.gpus[gpu].memory_bytes - call.state.used[gpu]) {
        return Code::out_of_memory;
      }
      call.state.used[gpu] += call.state.config.graph_bytes;
      const std::uint64_t id = call.state.new_handle();
      call.state.execs[id] = std::make_shared<FakeExec>(FakeExec{found->second.context, found->second.nodes});
      *exec = handle<cuda::GraphExecHandle>(id);
      return Code::success;
    });
  };
  api.graph_upload = [](cuda::GraphExecHandle exec, cuda::StreamHandle stream) {
    return fake_call("cuGraphUpload", FakeNeeds::context, [&](FakeCall& call) {
      return call.state.execs.contains(number(exec)) ? call.enqueue(stream, [] { return Code::success; }) : Code::invalid_value;
    });
  };
  api.graph_launch = [](cuda::GraphExecHandle exec, cuda::StreamHandle stream) {
    return fake_call("cuGraphLaunch", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.state.execs.find(number(exec));
      if (found == call.state.execs.end() || found->second->context != call.context) {
        return Code::invalid_value;
      }
      const auto& graph = found->second;
      if (graph->in_flight > 0 && graph->stream != number(stream)) {
        call.state.violation("one executable graph launched on two streams at once");
        return Code::illegal_state;
      }
      FakeWork work = replay(call.state, graph);
      if (call.late) {
        work = [&state = call.state, graph, code = *call.late] {
          const std::lock_guard lock(state.mutex);
          --graph->in_flight;
          return code;
        };
        call.late.reset();
      }
      const Code code = call.enqueue(stream, std::move(work));
      if (code == Code::success) {
        ++graph->in_flight;
        graph->stream = number(stream);
      }
      return code;
    });
  };
}

}  // namespace

void add_fake_graphs(cuda::DriverApi& api) {
  add_captures(api);
  add_execs(api);
  api.graph_exec_destroy = [](cuda::GraphExecHandle exec) {
    return fake_call("cuGraphExecDestroy", FakeNeeds::context, [&](FakeCall& call) {
      if (call.state.execs.erase(number(exec)) != 1) {
        return Code::invalid_value;
      }
      call.state.used[static_cast<std::size_t>(call.context->gpu)] -= call.state.config.graph_bytes;
      return Code::success;
    });
  };
  api.graph_destroy = [](cuda::GraphHandle graph) {
    return fake_call("cuGraphDestroy", FakeNeeds::context,
                     [&](FakeCall& call) { return call.state.graphs.erase(number(graph)) == 1 ? Code::success : Code::invalid_value; });
  };
}

}  // namespace kime::test
