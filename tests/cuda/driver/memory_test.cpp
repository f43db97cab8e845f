// Slabs and copies.
#include <cstring>
#include <thread>

#include "tests/cuda/driver/rig.h"

namespace kime::test {

namespace {

// What lies in a slab.
std::vector<std::uint8_t> content(Rig& rig, cuda::Stream& stream, cuda::Slab& slab, std::size_t bytes, std::size_t offset = 0) {
  std::vector<std::uint8_t> out(bytes);
  ok(rig.driver->copy_out(stream, out.data(), at(slab, offset), bytes));
  rig.finish(stream);
  return out;
}

}  // namespace

TEST_CASE("a pattern goes to a device and back, in both kinds of memory") {
  Rig rig;
  const auto mode = GENERATE(MemoryMode::device, MemoryMode::pinned_host, MemoryMode::managed);
  const auto stream = rig.stream();
  auto slab = rig.slab(10000, 0, mode);
  CHECK(slab.is_pinned() == (mode == MemoryMode::pinned_host));
  const auto in = pattern(9000);
  ok(rig.driver->zero(*stream, at(slab), 10000));
  ok(rig.driver->copy_in(*stream, at(slab, 500), in.data(), in.size()));
  ok(rig.driver->zero(*stream, at(slab, 1000), 1));
  auto out = content(rig, *stream, slab, 10000);
  auto expected = in;
  expected[500] = 0;
  CHECK(std::vector(out.begin() + 500, out.begin() + 9500) == expected);
  CHECK(std::count(out.begin(), out.begin() + 500, 0) == 500);
  CHECK(std::count(out.begin() + 9500, out.end(), 0) == 500);

  auto other = rig.slab(10000, 0, MemoryMode::device);
  ok(rig.driver->copy(*stream, at(other, 7), at(slab, 500), in.size()));
  ok(rig.driver->copy(*stream, at(slab), at(other, 7), in.size()));
  CHECK(content(rig, *stream, slab, in.size()) == expected);
}

TEST_CASE("copies of nothing do nothing") {
  Rig rig;
  const auto stream = rig.stream();
  auto slab = rig.slab(0);
  ok(rig.driver->zero(*stream, at(slab), 0));
  ok(rig.driver->copy_in(*stream, at(slab), nullptr, 0));
  ok(rig.driver->copy_out(*stream, nullptr, at(slab), 0));
  ok(rig.driver->copy(*stream, at(slab), at(slab), 0));
  CHECK(rig.fake.calls("cuMemcpyHtoDAsync") == 0);
}

TEST_CASE("alignment") {
  Rig rig;
  for (const std::size_t alignment : {std::size_t{1}, std::size_t{256}, std::size_t{512}, std::size_t{65536}}) {
    for (const auto mode : {MemoryMode::device, MemoryMode::pinned_host}) {
      const auto odd = rig.slab(3);
      const auto slab = get(rig.driver->alloc(0, 100, alignment, mode));
      CHECK(slab.address() % alignment == 0);
    }
  }
  CHECK(why(rig.driver->alloc(0, 100, 48, MemoryMode::device)) == "an alignment of 48 bytes is no power of two");
  CHECK_THAT(why(rig.driver->alloc(0, ~std::size_t{0}, 65536, MemoryMode::device)), Contains("are more than any memory"));
}

TEST_CASE("memory is given back on any thread, and is counted") {
  Rig rig;
  {
    auto slab = rig.slab(1000);
    auto pinned = rig.slab(500, 0, MemoryMode::pinned_host);
    CHECK(rig.fake.used_bytes(0) == 1000);
    CHECK(rig.fake.host_bytes() == 500);
    CHECK(rig.driver->properties(0).memory_used_bytes == 1000);
    std::thread([moved = std::move(slab), too = std::move(pinned)] {}).join();
  }
  CHECK(rig.fake.used_bytes(0) == 0);
  CHECK(rig.fake.host_bytes() == 0);
  auto kept = rig.slab(10);
  kept = rig.slab(20);
  CHECK(rig.fake.used_bytes(0) >= 20);
}

TEST_CASE("a slab outlives its driver") {
  Rig rig;
  auto slab = std::make_unique<cuda::Slab>(rig.slab(100));
  auto driver = get(CudaDriver::open(over_fake()));
  auto other = get(driver->alloc(0, 100, 64, MemoryMode::device));
  driver.reset();
  CHECK(rig.fake.used_bytes(0) == 200);
}

TEST_CASE("too little memory") {
  auto config = gpus(1);
  config.gpus[0].memory_bytes = 4096;
  config.host_bytes = 100;
  Rig rig(config);
  const auto first = rig.slab(3000);
  CHECK(why(rig.driver->alloc(0, 2000, 64, MemoryMode::device)) ==
        "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory (2000 bytes; 1096 of 4096 are free)");
  CHECK(why(rig.driver->alloc(0, 200, 64, MemoryMode::pinned_host)) ==
        "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory (200 bytes of pinned memory)");
  rig.fake.fail("cuMemGetInfo", 1, Code::invalid_value);
  CHECK(why(rig.driver->alloc(0, 2000, 64, MemoryMode::device)) == "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory (2000 bytes)");
  CHECK(rig.driver->alive(0));
  const auto second = rig.slab(1000);
}

TEST_CASE("no memory for a context") {
  auto config = gpus(1);
  config.gpus[0].context_bytes = 5000;
  config.gpus[0].memory_bytes = 4096;
  Rig rig(config);
  const std::string told = "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory";
  CHECK(why(rig.driver->alloc(0, 1, 64, MemoryMode::device)) == told);
  CHECK(why(rig.driver->alloc(0, 1, 64, MemoryMode::pinned_host)) == told);
  CHECK(why(rig.driver->make_stream(0, 0)) == told);
}

TEST_CASE("each function of memory that fails says so by its name, and leaves nothing behind") {
  Rig rig;
  const auto stream = rig.stream();
  auto slab = rig.slab(100);
  auto other = rig.slab(100);
  std::array<std::byte, 100> host{};
  ok(rig.driver->copy_in(*stream, at(slab), host.data(), 1));
  const std::size_t ring = rig.fake.host_bytes();  // what the stream's copies go through
  const auto failing = [&](const char* function, const std::function<std::string()>& body) {
    rig.fake.fail(function, 1, Code::invalid_value);
    CHECK(body() == std::string(function) + ": CUDA_ERROR_INVALID_VALUE: invalid argument");
  };
  failing("cuMemAlloc", [&] { return why(rig.driver->alloc(0, 1, 64, MemoryMode::device)); });
  failing("cuMemHostGetDevicePointer", [&] { return why(rig.driver->alloc(0, 1, 64, MemoryMode::pinned_host)); });
  failing("cuMemsetD8Async", [&] { return why(rig.driver->zero(*stream, at(slab), 1)); });
  failing("cuMemcpyHtoDAsync", [&] { return why(rig.driver->copy_in(*stream, at(slab), host.data(), 1)); });
  failing("cuMemcpyDtoHAsync", [&] { return why(rig.driver->copy_out(*stream, host.data(), at(slab), 1)); });
  failing("cuMemcpyAsync", [&] { return why(rig.driver->copy(*stream, at(slab), at(other), 1)); });
  for (const auto& body : std::vector<std::function<std::string()>>{
           [&] { return why(rig.driver->alloc(0, 1, 64, MemoryMode::device)); },
           [&] { return why(rig.driver->alloc(0, 1, 64, MemoryMode::pinned_host)); },
           [&] { return why(rig.driver->zero(*stream, at(slab), 1)); },
           [&] { return why(rig.driver->copy_in(*stream, at(slab), host.data(), 1)); },
           [&] { return why(rig.driver->copy_out(*stream, host.data(), at(slab), 1)); },
           [&] { return why(rig.driver->copy(*stream, at(slab), at(other), 1)); },
       }) {
    failing("cuCtxSetCurrent", body);
  }
  CHECK(rig.driver->alive(0));
  CHECK(rig.fake.used_bytes(0) == 200);
  CHECK(rig.fake.host_bytes() == ring);
}

TEST_CASE("copies from the host go through pinned memory, of which there may be none") {
  constexpr std::size_t kBytes = (std::size_t{5} << 20) + 17;  // more than the stream has pinned
  FakeCudaConfig config;
  const bool pinned = GENERATE(true, false);
  config.host_bytes = pinned ? config.host_bytes : 1000;
  CAPTURE(pinned);
  Rig rig(config);
  const auto stream = rig.stream();
  auto slab = rig.slab(kBytes);
  const auto want = pattern(kBytes);
  auto from = want;
  std::vector<std::uint8_t> back(kBytes);
  ok(rig.driver->copy_in(*stream, at(slab), from.data(), kBytes));
  if (pinned) {
    CHECK(rig.fake.host_bytes() > 0);
    CHECK(rig.fake.calls("cuMemcpyHtoDAsync") == 41);  // 128 KiB each
  } else {
    CHECK(rig.fake.host_bytes() == 0);
    CHECK(rig.fake.calls("cuMemcpyHtoDAsync") == 1);
  }
  rig.finish(*stream);
  from.assign(kBytes, 0);
  ok(rig.driver->copy_out(*stream, back.data(), at(slab), kBytes));
  rig.finish(*stream);
  CHECK(back == want);
}

TEST_CASE("what a small copy reads is the caller's again at once, whatever the stream still does") {
  Rig rig;
  const auto stream = rig.stream();
  auto slab = rig.slab(1000);
  const auto want = pattern(1000);
  auto from = want;
  std::vector<std::uint8_t> back(1000);
  rig.fake.hold();
  ok(rig.driver->copy_in(*stream, at(slab), from.data(), from.size()));
  from.assign(from.size(), 0);
  rig.fake.release();
  ok(rig.driver->copy_out(*stream, back.data(), at(slab), back.size()));
  rig.finish(*stream);
  CHECK(back == want);
}

TEST_CASE("copies between devices, with access to one another's memory and without") {
  auto config = gpus(2);
  config.peers = GENERATE(true, false);
  Rig rig(config);
  const auto bytes = GENERATE(as<std::size_t>(), 1, 5000, cuda::Relay::kPiece, 3 * cuda::Relay::kPiece + 17);
  const auto here = rig.stream(0);
  const auto there = rig.stream(1);
  auto from = rig.slab(bytes + 3, 0);
  auto to = rig.slab(bytes + 5, 1);
  const auto in = pattern(bytes);
  ok(rig.driver->copy_in(*here, at(from, 3), in.data(), bytes));
  rig.finish(*here);
  ok(rig.driver->zero(*there, at(to), bytes + 5));
  ok(rig.driver->copy(*there, at(to, 5), at(from, 3), bytes));
  CHECK(content(rig, *there, to, bytes, 5) == in);
  // once more, with other bytes: what the first left behind takes part again
  const auto again = pattern(bytes, 99);
  ok(rig.driver->copy_in(*here, at(from, 3), again.data(), bytes));
  rig.finish(*here);
  ok(rig.driver->copy(*there, at(to, 5), at(from, 3), bytes));
  CHECK(content(rig, *there, to, bytes, 5) == again);
  CHECK(rig.fake.calls("cuMemcpyPeerAsync") == (config.peers ? 2 : 0));
  CHECK(rig.fake.calls("cuCtxEnablePeerAccess") == (config.peers ? 1 : 0));
  CHECK(why(rig.driver->copy(*here, at(to), at(from), 1)) == "a copy to a device goes by one of its own streams");
  // pinned memory is everybody's
  auto pinned = rig.slab(bytes, 0, MemoryMode::pinned_host);
  ok(rig.driver->copy(*there, at(pinned), at(to, 5), bytes));
  CHECK(content(rig, *there, pinned, bytes) == again);
}

TEST_CASE("access that is there already, or cannot be had, is no failure") {
  Rig rig(gpus(2));
  const auto& [function, code, direct] = GENERATE(table<const char*, Code, bool>({
      {"cuDeviceCanAccessPeer", Code::invalid_device, false},
      {"cuCtxEnablePeerAccess", Code::peer_access_unsupported, false},
      {"cuCtxEnablePeerAccess", Code::peer_access_already_enabled, true},
  }));
  const auto here = rig.stream(0);
  const auto there = rig.stream(1);
  rig.fake.fail(function, 1, code);
  if (direct) {
    REQUIRE(FakeCuda::api().ctx_set_current(there->context().handle()) == Code::success);
    rig.fake.forget_faults();
    REQUIRE(FakeCuda::api().ctx_enable_peer_access(here->context().handle(), 0) == Code::success);
  }
  auto from = rig.slab(100, 0);
  auto to = rig.slab(100, 1);
  const auto in = pattern(100);
  ok(rig.driver->copy_in(*here, at(from), in.data(), 100));
  rig.finish(*here);
  ok(rig.driver->copy(*there, at(to), at(from), 100));
  CHECK(content(rig, *there, to, 100) == in);
  CHECK(rig.fake.calls("cuMemcpyPeerAsync") == (direct ? 1 : 0));
}

TEST_CASE("a copy by way of the host fails where any of its calls does, and the next one works") {
  auto config = gpus(2);
  config.peers = false;
  Rig rig(config);
  const auto here = rig.stream(0);
  const auto there = rig.stream(1);
  const std::size_t bytes = 2 * cuda::Relay::kPiece + 100;
  auto from = rig.slab(bytes, 0);
  auto to = rig.slab(bytes, 1);
  const auto in = pattern(bytes);
  ok(rig.driver->copy_in(*here, at(from), in.data(), bytes));
  rig.finish(*here);
  for (const auto* function : {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuEventCreate", "cuStreamCreate", "cuEventRecord",
                               "cuStreamWaitEvent", "cuMemcpyAsync", "cuCtxSetCurrent"}) {
    for (std::size_t nth = 1; nth < 100; ++nth) {
      INFO(function << " " << nth);
      const std::size_t before = rig.fake.calls(function);
      const auto fresh = rig.stream(1);
      const std::size_t made = rig.fake.calls(function) - before;
      rig.fake.fail(function, nth, Code::invalid_value);
      auto copied = rig.driver->copy(*fresh, at(to), at(from), bytes);
      if (copied) {
        CHECK(rig.fake.calls(function) - before - made < nth);
        rig.fake.forget_faults();
        rig.finish(*fresh);
        break;
      }
      CHECK_THAT(why(copied), Contains(std::string(function) + ": CUDA_ERROR_INVALID_VALUE"));
      rig.fake.forget_faults();
      ok(rig.driver->copy(*fresh, at(to), at(from), bytes));
      CHECK(content(rig, *fresh, to, bytes) == in);
    }
  }
}

TEST_CASE("a device that dies while another copies from it fails that copy") {
  auto config = gpus(2);
  config.peers = false;
  Rig rig(config);
  const auto there = rig.stream(1);
  auto from = rig.slab(100, 0);
  auto to = rig.slab(100, 1);
  rig.fake.fail_late("cuMemcpyAsync", 1, Code::illegal_address);
  rig.fake.hold();
  ok(rig.driver->copy(*there, at(to), at(from), 100));
  ok(rig.driver->record(*there, 1));
  rig.fake.release();
  CHECK_THAT(why(rig.driver->finish(*there, 1, {})), Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK_FALSE(rig.driver->alive(0));
  CHECK(rig.driver->alive(1));
  ok(rig.driver->record(*there, 2));
  CHECK(get(rig.driver->finish(*there, 2, {})));
}

}  // namespace kime::test
