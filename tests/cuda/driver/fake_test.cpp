// The fake itself: the rules it holds, launches and graphs.
#include <cstring>
#include <thread>

#include "tests/cuda/driver/rig.h"

namespace kime::test {

namespace {

const cuda::DriverApi& api = FakeCuda::api();

struct AddParams {
  float* to;
  float add;
  unsigned count;
};

// A kernel that adds a number to each of some.
FakeKernel add_kernel() {
  return {{sizeof(AddParams)}, [](const FakeLaunch& launch) {
            AddParams params{};
            std::memcpy(&params, launch.parameters[0].data(), sizeof(params));
            for (unsigned i = 0; i < params.count; ++i) {
              params.to[i] += params.add;
            }
            return Code::success;
          }};
}

// A context, a stream, a kernel and four numbers, all zero.
class Bench {
 public:
  explicit Bench(FakeCudaConfig config = {}) : fake(std::move(config)) {
    fake.add_kernel("add", add_kernel());
    REQUIRE(api.init(0) == Code::success);
    REQUIRE(api.primary_ctx_retain(&context, 0) == Code::success);
    REQUIRE(api.ctx_set_current(context) == Code::success);
    REQUIRE(api.stream_create(&stream, cuda::kStreamNonBlocking) == Code::success);
    REQUIRE(api.mem_alloc(&numbers, 16) == Code::success);
    REQUIRE(api.memset_d8_async(numbers, 0, 16, stream) == Code::success);
    REQUIRE(api.module_load_data(&module, "image") == Code::success);
    REQUIRE(api.module_get_function(&add, module, "add") == Code::success);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() = default;

  Code launch(float value, cuda::StreamHandle on, unsigned threads = 32, unsigned shared = 0) {
    AddParams params{nullptr, value, 4};
    std::memcpy(static_cast<void*>(&params.to), &numbers, sizeof(numbers));
    void* all[] = {&params};
    const Code code = api.launch_kernel(add, 1, 1, 1, threads, 1, 1, shared, on, all, nullptr);
    params = {};  // the launch has its own
    return code;
  }
  float first() {
    std::array<float, 4> out{};
    REQUIRE(api.memcpy_dtoh_async(out.data(), numbers, 16, stream) == Code::success);
    REQUIRE(api.stream_synchronize(stream) == Code::success);
    return out[0];
  }
  std::string violation() {
    const auto all = fake.violations();
    return all.empty() ? "" : all.back();
  }

  FakeCuda fake;
  cuda::ContextHandle context = nullptr;
  cuda::StreamHandle stream = nullptr;
  cuda::DeviceAddress numbers = 0;
  cuda::ModuleHandle module = nullptr;
  cuda::FunctionHandle add = nullptr;
};

}  // namespace

TEST_CASE("fake: calls need cuInit and a current context, of each thread") {
  const FakeCuda fake;
  int count = 0;
  CHECK(api.device_get_count(&count) == Code::not_initialized);
  REQUIRE(api.init(0) == Code::success);
  cuda::DeviceAddress address = 0;
  CHECK(api.mem_alloc(&address, 1) == Code::invalid_context);
  cuda::ContextHandle context = nullptr;
  REQUIRE(api.primary_ctx_retain(&context, 0) == Code::success);
  REQUIRE(api.ctx_set_current(context) == Code::success);
  CHECK(api.mem_alloc(&address, 1) == Code::success);
  std::thread([&] { CHECK(api.mem_free(address) == Code::invalid_context); }).join();
  CHECK(address >= 0x00DE'0000'0000'0000);
  REQUIRE(api.primary_ctx_release(0) == Code::success);
  CHECK(api.mem_free(address) == Code::context_is_destroyed);
  CHECK(api.primary_ctx_release(0) == Code::invalid_context);
}

TEST_CASE("fake: launches run a kernel by name on the stream, with the parameters of their time") {
  Bench bench;
  cuda::FunctionHandle none = nullptr;
  CHECK(api.module_get_function(&none, bench.module, "no such") == Code::not_found);
  CHECK(bench.launch(1.5F, bench.stream) == Code::success);
  CHECK(bench.launch(2, bench.stream) == Code::success);
  CHECK(bench.first() == 3.5F);
  CHECK(bench.launch(1, bench.stream, 1025) == Code::invalid_value);
  CHECK(bench.launch(1, bench.stream, 0) == Code::invalid_value);
  CHECK(bench.launch(1, bench.stream, 32, 50000) == Code::invalid_value);
  REQUIRE(api.func_set_attribute(bench.add, cuda::FunctionAttribute::max_dynamic_shared_bytes, 50000) == Code::success);
  CHECK(bench.launch(1, bench.stream, 32, 50000) == Code::success);
  CHECK(bench.first() == 4.5F);
  CHECK(bench.fake.violations().empty());
  REQUIRE(api.module_unload(bench.module) == Code::success);
  CHECK(bench.launch(1, bench.stream) == Code::invalid_handle);
}

TEST_CASE("fake: a launch with memory that is gone poisons the context") {
  Bench bench;
  bench.fake.hold();
  CHECK(bench.launch(1, bench.stream) == Code::success);
  bench.numbers += 16 + 512;
  CHECK(bench.launch(1, bench.stream) == Code::success);
  bench.fake.release();
  CHECK(api.stream_synchronize(bench.stream) == Code::illegal_address);
  CHECK(bench.launch(1, bench.stream) == Code::illegal_address);
  CHECK(bench.violation() == "memory used past its end, or after it was freed");
}

TEST_CASE("fake: host pointers and device addresses are kept apart") {
  Bench bench;
  std::array<char, 4> host{};
  CHECK(api.memcpy_htod_async(bench.numbers, reinterpret_cast<void*>(bench.numbers), 4, bench.stream) == Code::invalid_value);
  CHECK(bench.violation() == "a device address where a host pointer must be");
  CHECK(api.memcpy_htod_async(reinterpret_cast<cuda::DeviceAddress>(host.data()), host.data(), 4, bench.stream) == Code::success);
  CHECK(api.stream_synchronize(bench.stream) == Code::illegal_address);
}

TEST_CASE("fake: a captured graph is replayed with the parameters of its capture") {
  Bench bench;
  REQUIRE(bench.first() == 0);
  REQUIRE(api.stream_begin_capture(bench.stream, cuda::CaptureMode::thread_local_) == Code::success);
  cuda::CaptureStatus status{};
  REQUIRE(api.stream_is_capturing(bench.stream, &status) == Code::success);
  CHECK(status == cuda::CaptureStatus::active);
  CHECK(bench.launch(1, bench.stream) == Code::success);
  CHECK(bench.launch(2, bench.stream) == Code::success);
  cuda::GraphHandle graph = nullptr;
  std::thread([&] {
    REQUIRE(api.ctx_set_current(bench.context) == Code::success);
    CHECK(api.stream_end_capture(bench.stream, &graph) == Code::stream_capture_wrong_thread);
    cuda::DeviceAddress address = 0;
    CHECK(api.mem_alloc(&address, 1) == Code::success);  // another thread may
  }).join();
  REQUIRE(api.stream_end_capture(bench.stream, &graph) == Code::success);
  CHECK(api.stream_end_capture(bench.stream, &graph) == Code::illegal_state);
  CHECK(bench.first() == 0);  // nothing has run
  REQUIRE(api.stream_begin_capture(bench.stream, cuda::CaptureMode::thread_local_) == Code::success);
  REQUIRE(bench.launch(1, bench.stream) == Code::success);
  REQUIRE(bench.launch(2, bench.stream) == Code::success);
  REQUIRE(api.stream_end_capture(bench.stream, &graph) == Code::success);
  cuda::GraphExecHandle exec = nullptr;
  REQUIRE(api.graph_instantiate(&exec, graph, 0) == Code::success);
  REQUIRE(api.graph_destroy(graph) == Code::success);
  REQUIRE(api.graph_upload(exec, bench.stream) == Code::success);
  CHECK(api.graph_launch(exec, bench.stream) == Code::success);
  CHECK(api.graph_launch(exec, bench.stream) == Code::success);  // one after the other
  CHECK(bench.first() == 6);
  CHECK(bench.fake.violations().empty());

  cuda::StreamHandle other = nullptr;
  REQUIRE(api.stream_create(&other, 0) == Code::success);
  bench.fake.hold();
  CHECK(api.graph_launch(exec, bench.stream) == Code::success);
  CHECK(api.graph_launch(exec, other) == Code::illegal_state);
  CHECK(bench.violation() == "one executable graph launched on two streams at once");
  bench.fake.release();
  REQUIRE(api.stream_synchronize(bench.stream) == Code::success);
  CHECK(api.graph_launch(exec, other) == Code::success);
  REQUIRE(api.stream_synchronize(other) == Code::success);
  CHECK(bench.first() == 12);
  CHECK(api.graph_exec_destroy(exec) == Code::success);
}

TEST_CASE("fake: what must not be inside a capture breaks it") {
  Bench bench;
  cuda::EventHandle event = nullptr;
  REQUIRE(api.event_create(&event, 0) == Code::success);
  const std::vector<std::pair<std::string, std::function<Code()>>> calls = {
      {"cuMemAlloc",
       [] {
         cuda::DeviceAddress address = 0;
         return api.mem_alloc(&address, 1);
       }},
      {"cuMemFree", [&] { return api.mem_free(bench.numbers); }},
      {"cuMemHostAlloc",
       [] {
         void* memory = nullptr;
         return api.mem_host_alloc(&memory, 1, 0);
       }},
      {"cuStreamSynchronize", [&] { return api.stream_synchronize(bench.stream); }},
      {"cuEventSynchronize", [&] { return api.event_synchronize(event); }},
      {"cuEventQuery", [&] { return api.event_query(event); }},
      {"cuModuleLoadData",
       [] {
         cuda::ModuleHandle module = nullptr;
         return api.module_load_data(&module, "image");
       }},
  };
  for (const auto& [name, call] : calls) {
    INFO(name);
    REQUIRE(api.stream_begin_capture(bench.stream, cuda::CaptureMode::thread_local_) == Code::success);
    CHECK(call() == Code::stream_capture_unsupported);
    CHECK(bench.violation() == name + " inside a capture");
    CHECK(bench.launch(1, bench.stream) == Code::stream_capture_invalidated);
    cuda::GraphHandle graph = nullptr;
    CHECK(api.stream_end_capture(bench.stream, &graph) == Code::stream_capture_invalidated);
  }
  cuda::StreamHandle other = nullptr;
  REQUIRE(api.stream_create(&other, 0) == Code::success);
  REQUIRE(api.stream_begin_capture(bench.stream, cuda::CaptureMode::thread_local_) == Code::success);
  REQUIRE(api.event_record(event, bench.stream) == Code::success);
  CHECK(api.stream_wait_event(other, event, 0) == Code::stream_capture_isolation);
  cuda::GraphHandle graph = nullptr;
  CHECK(api.stream_end_capture(bench.stream, &graph) == Code::success);
  CHECK(api.event_query(event) == Code::captured_event);
}

TEST_CASE("fake: a graph takes memory, and there may be too little") {
  FakeCudaConfig config;
  config.graph_bytes = 1000;
  config.gpus[0].memory_bytes = 1500;
  Bench bench(config);
  REQUIRE(api.stream_begin_capture(bench.stream, cuda::CaptureMode::thread_local_) == Code::success);
  cuda::GraphHandle graph = nullptr;
  REQUIRE(api.stream_end_capture(bench.stream, &graph) == Code::success);
  cuda::GraphExecHandle exec = nullptr;
  CHECK(api.graph_instantiate(&exec, graph, 0) == Code::success);
  cuda::GraphExecHandle second = nullptr;
  CHECK(api.graph_instantiate(&second, graph, 0) == Code::out_of_memory);
  CHECK(api.graph_exec_destroy(exec) == Code::success);
  CHECK(api.graph_instantiate(&second, graph, 0) == Code::success);
  CHECK(bench.fake.used_bytes(0) == 1016);
}

TEST_CASE("fake: the nth call fails, once, and late where it is asked to") {
  Bench bench;
  bench.fake.fail("cuLaunchKernel", 2, Code::invalid_value);
  CHECK(bench.launch(1, bench.stream) == Code::success);
  CHECK(bench.launch(1, bench.stream) == Code::invalid_value);
  CHECK(bench.launch(1, bench.stream) == Code::success);
  CHECK(bench.first() == 2);
  CHECK(bench.fake.calls("cuLaunchKernel") == 3);
  bench.fake.fail_late("cuLaunchKernel", 1, Code::launch_failed);
  CHECK(bench.launch(1, bench.stream) == Code::success);
  CHECK(api.stream_synchronize(bench.stream) == Code::launch_failed);
  CHECK(api.mem_free(bench.numbers) == Code::launch_failed);
}

}  // namespace kime::test
