// The driver under the real runtime.
#include <thread>

#include "kime/job/device_check.h"
#include "kime/runtime/multidev.h"
#include "tests/cuda/driver/rig.h"

namespace kime::test {

namespace {

// A runtime over a fake. When it ends, nothing is left and no rule was broken.
class Runtime {
 public:
  explicit Runtime(FakeCudaConfig config = {}) : gpus(config.gpus.size()), fake(std::move(config)) {
    RuntimeConfig<CudaDriver> over;
    over.driver = over_fake();
    ok(runtime.initialize(over));
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime() {
    fake.release();
    runtime.unsafe_cleanup();
    for (std::size_t i = 0; i < gpus; ++i) {
      CHECK(fake.used_bytes(i) == 0);
    }
    CHECK(fake.violations() == std::vector<std::string>());
  }
  [[nodiscard]] Device device(std::size_t ordinal = 0) { return get(runtime.get_device(ordinal)); }
  [[nodiscard]] Stream stream(std::size_t ordinal = 0) { return get(runtime.new_virtual_device(device(ordinal))); }
  [[nodiscard]] Status check(std::size_t ordinal, double timeout = 0) {
    auto stream = runtime.new_virtual_device(device(ordinal));
    if (!stream) {
      return std::move(stream).error();
    }
    return DeviceCheck<CudaDriver>(runtime, device(ordinal), *stream, std::chrono::duration<double>(timeout)).run();
  }

  std::size_t gpus;
  FakeCuda fake;
  Multidev<CudaDriver> runtime;
};

}  // namespace

TEST_CASE("multidev: the check that each device is put to before a job") {
  Runtime over(gpus(2));
  ok(over.check(0));
  ok(over.check(1));
  CHECK(over.fake.handles() > 0);
  const auto properties = get(over.runtime.static_properties());
  CHECK(properties[1]["device"] == "cuda:1");
  CHECK(properties[1]["memory_used_bytes"] == 0);
  CHECK(get(over.runtime.hardware_limits()).threads_per_group == 1024);
}

TEST_CASE("multidev: that check finds each call that fails, and its device goes on or is lost") {
  // Every function that it uses, the first, second and later calls: never a hang, never a wrong answer, nothing left behind.
  for (const auto* function :
       {"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc", "cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuMemsetD8Async",
        "cuMemcpyAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamCreate", "cuEventCreate", "cuEventRecord", "cuEventQuery"}) {
    for (const auto code : {Code::invalid_value, Code::illegal_address}) {
      for (const std::size_t nth : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
        INFO(function << " " << nth << " " << static_cast<unsigned>(code));
        Runtime over;
        over.fake.fail(function, nth, code);
        auto checked = over.check(0);
        const bool struck = over.fake.calls(function) >= nth;
        if (!checked) {
          CHECK_THAT(checked.error().text(), Contains("CUDA_ERROR_"));
        }
        CHECK((checked || struck));
      }
    }
  }
}

TEST_CASE("multidev: work that fails late is found, and a sticky error loses the device") {
  for (const auto* function : {"cuMemsetD8Async", "cuMemcpyAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"}) {
    INFO(function);
    Runtime over(gpus(2));
    over.fake.fail_late(function, 1, Code::illegal_address);
    auto checked = over.check(0);
    REQUIRE_FALSE(checked);
    CHECK_THAT(checked.error().text(), Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
    ok(over.check(1));
  }
}

TEST_CASE("multidev: a device that hangs is given up, and what it does later has no effect") {
  Runtime over(gpus(2));
  over.fake.hold();
  auto checked = over.check(0, 0.05);
  REQUIRE_FALSE(checked);
  CHECK_THAT(checked.error().text(), Contains("it does not answer"));
  CHECK(get(over.runtime.lost(over.device(0))).has_value());
  over.fake.release();
  ok(over.check(1));
}

TEST_CASE("multidev: a buffer of one device is copied to another's") {
  auto config = gpus(2);
  config.peers = GENERATE(true, false);
  Runtime over(config);
  auto& runtime = over.runtime;
  constexpr std::size_t kBytes = 5000;
  const Stream here = over.stream(0);
  const Stream there = over.stream(1);
  const Context from = get(runtime.make_context(over.device(0), here));
  const Context to = get(runtime.make_context(over.device(1), there));
  ok(runtime.need(from, Node::inputs, kBytes, MemoryMode::device));
  const auto in = pattern(kBytes);
  std::vector<std::uint8_t> out(kBytes);
  const std::array<HostRead, 1> reads{HostRead{0, in.data(), kBytes}};
  REQUIRE(get(runtime.from_host(from, Node::inputs, reads)));
  ok(runtime.sync(get(runtime.all_work(from))));
  ok(runtime.need(to, Node::inputs, kBytes, MemoryMode::device));
  REQUIRE(get(runtime.device_to_device(Node::inputs, MergeUse::none, to, from)));
  const std::array<HostWrite, 1> writes{HostWrite{0, out.data(), kBytes}};
  REQUIRE(get(runtime.to_host(to, Node::inputs, writes)));
  ok(runtime.sync(get(runtime.all_work(to))));
  CHECK(out == in);
  CHECK(over.fake.calls("cuMemcpyPeerAsync") == (config.peers ? 1 : 0));
  ok(runtime.finalize(to));
  ok(runtime.finalize(from));
}

}  // namespace kime::test
