// Streams, marks, and devices that fail.
#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "tests/cuda/driver/rig.h"

namespace kime::test {

TEST_CASE("a mark comes when what is before it is done") {
  Rig rig;
  const auto stream = rig.stream();
  auto slab = rig.slab(100);
  rig.fake.hold();
  ok(rig.driver->zero(*stream, at(slab), 100));
  ok(rig.driver->record(*stream, 1));
  ok(rig.driver->record(*stream, 2));
  CHECK_FALSE(get(rig.driver->reached(*stream, 1)));
  CHECK_FALSE(get(rig.driver->finish(*stream, 2, in(1))));
  CHECK_FALSE(get(rig.driver->finish(*stream, 2, std::chrono::steady_clock::now())));
  std::thread waiter([&] { CHECK(get(rig.driver->finish(*stream, 2, {}))); });
  rig.fake.release();
  waiter.join();
  CHECK(get(rig.driver->reached(*stream, 1)));
  CHECK(get(rig.driver->finish(*stream, 2, in(0))));
  CHECK_FALSE(get(rig.driver->reached(*stream, 3)));  // not recorded
}

TEST_CASE("marks use few events") {
  Rig rig;
  const auto stream = rig.stream();
  for (Ticket ticket = 1; ticket <= 1000; ++ticket) {
    ok(rig.driver->record(*stream, ticket));
    if (ticket % 3 == 0) {
      CHECK(get(rig.driver->finish(*stream, ticket, {})));
    }
  }
  CHECK(rig.fake.calls("cuEventCreate") <= 3);
  CHECK(get(rig.driver->reached(*stream, 999)));
}

TEST_CASE("a stream waits for another's mark") {
  Rig rig;
  const auto first = rig.stream();
  const auto second = rig.stream();
  auto slab = rig.slab(4);
  const auto in = pattern(4);
  std::vector<std::uint8_t> out(4);
  for (int round = 0; round < 50; ++round) {
    const auto ticket = static_cast<Ticket>(round + 1);
    ok(rig.driver->zero(*first, at(slab), 4));
    ok(rig.driver->copy_in(*first, at(slab), in.data(), 4));
    ok(rig.driver->record(*first, ticket));
    ok(rig.driver->wait_for(*second, *first, ticket));
    ok(rig.driver->copy_out(*second, out.data(), at(slab), 4));
    ok(rig.driver->record(*second, ticket));
    CHECK(get(rig.driver->finish(*second, ticket, {})));
    CHECK(out == in);
    ok(rig.driver->wait_for(*second, *first, ticket));  // has come
  }
  CHECK(why(rig.driver->wait_for(*second, *first, 1000)) == "a wait for a point of a stream that was never recorded");
}

TEST_CASE("each function of streams that fails says so by its name") {
  Rig rig;
  const auto stream = rig.stream();
  const auto other = rig.stream();
  const auto failing = [&](const char* function, const std::function<std::string()>& body) {
    rig.fake.fail(function, 1, Code::invalid_value);
    CHECK(body() == std::string(function) + ": CUDA_ERROR_INVALID_VALUE: invalid argument");
  };
  failing("cuStreamCreate", [&] { return why(rig.driver->make_stream(0, 0)); });
  failing("cuCtxSetCurrent", [&] { return why(rig.driver->make_stream(0, 0)); });
  failing("cuEventCreate", [&] { return why(rig.driver->record(*stream, 1)); });
  CHECK_THAT(why(rig.driver->reached(*stream, 1)), Contains("cuEventCreate"));  // and so for all who ask
  failing("cuEventRecord", [&] { return why(rig.driver->record(*stream, 2)); });
  CHECK_THAT(why(rig.driver->finish(*stream, 2, {})), Contains("cuEventRecord"));
  CHECK_THAT(why(rig.driver->wait_for(*other, *stream, 2)), Contains("cuEventRecord"));
  failing("cuCtxSetCurrent", [&] { return why(rig.driver->record(*stream, 3)); });
  ok(rig.driver->record(*stream, 4));
  failing("cuEventQuery", [&] { return why(rig.driver->finish(*stream, 4, {})); });
  CHECK_THAT(why(rig.driver->reached(*stream, 4)), Contains("cuEventQuery"));
  rig.fake.hold();
  ok(rig.driver->record(*stream, 5));
  failing("cuStreamWaitEvent", [&] { return why(rig.driver->wait_for(*other, *stream, 5)); });
  rig.fake.release();
  rig.finish(*other);
  CHECK(get(rig.driver->finish(*stream, 5, {})));
  CHECK(rig.driver->alive(0));
}

TEST_CASE("what fails late fails its mark, and not the next one") {
  Rig rig;
  const auto stream = rig.stream();
  rig.fake.fail_late("cuEventRecord", 2, Code::launch_out_of_resources);
  ok(rig.driver->record(*stream, 1));
  ok(rig.driver->record(*stream, 2));
  ok(rig.driver->record(*stream, 3));
  CHECK(get(rig.driver->finish(*stream, 3, {})));
  CHECK(get(rig.driver->reached(*stream, 1)));
  for (int i = 0; i < 2; ++i) {
    CHECK_THAT(why(rig.driver->reached(*stream, 2)), Contains("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
  }
  CHECK(rig.driver->alive(0));
}

TEST_CASE("a sticky error is the end of a device, and of no other") {
  Rig rig(gpus(2));
  const auto code = GENERATE(Code::illegal_address, Code::launch_failed, Code::ecc_uncorrectable, Code::unknown);
  const bool late = GENERATE(false, true);
  auto slab = rig.slab(100);
  auto other = rig.slab(100, 1);
  auto pinned = rig.slab(100, 0, MemoryMode::pinned_host);
  const auto stream = rig.stream();
  const auto sound = rig.stream(1);
  Status zeroed;
  if (late) {
    rig.fake.fail_late("cuMemsetD8Async", 1, code);
    rig.fake.hold();
    ok(rig.driver->zero(*stream, at(slab), 100));
    ok(rig.driver->record(*stream, 1));
    CHECK(rig.driver->alive(0));
    std::thread waiter([&] { CHECK_FALSE(rig.driver->finish(*stream, 1, {})); });
    rig.fake.release();
    waiter.join();
  } else {
    rig.fake.fail("cuMemsetD8Async", 1, code);
    CHECK_FALSE(rig.driver->zero(*stream, at(slab), 100));
  }
  CHECK_FALSE(rig.driver->alive(0));
  CHECK(rig.driver->debug_info(0)["sticky_error"].get<std::string>().find("CUDA_ERROR_") != std::string::npos);
  CHECK_FALSE(rig.driver->record(*stream, 2));
  CHECK_FALSE(rig.driver->alloc(0, 1, 64, MemoryMode::device));
  CHECK_FALSE(rig.driver->make_stream(0, 0));
  CHECK(rig.driver->alive(1));
  ok(rig.driver->zero(*sound, at(other), 100));
  rig.finish(*sound);
}

TEST_CASE("memory that is not to be had on the device is a sticky error") {
  FakeCuda fake;
  const auto driver = get(CudaDriver::open(over_fake()));
  const auto stream = get(driver->make_stream(0, 0));
  auto slab = get(driver->alloc(0, 100, 64, MemoryMode::device));
  ok(driver->zero(*stream, at(slab, 50), 51));
  static_cast<void>(driver->record(*stream, 1));
  CHECK_THAT(why(driver->finish(*stream, 1, {})), Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK_FALSE(driver->alive(0));
  CHECK(fake.violations() == std::vector<std::string>{"memory used past its end, or after it was freed"});
}

TEST_CASE("enter makes the device current") {
  Rig rig(gpus(2));
  const auto stream = rig.stream(1);
  std::thread([&] {
    std::size_t free = 0;
    std::size_t total = 0;
    Code inside = Code::unknown;
    rig.driver->enter(*stream, [&] { inside = FakeCuda::api().mem_get_info(&free, &total); });
    CHECK(inside == Code::success);
  }).join();
  int ran = 0;
  rig.fake.fail("cuCtxSetCurrent", 1, Code::invalid_value);
  rig.driver->enter(*stream, [&] { ++ran; });  // what is inside says so
  CHECK(ran == 1);
}

TEST_CASE("several devices, streams and threads at once", "[threads]") {
  auto config = gpus(3);
  config.peers = GENERATE(true, false);
  Rig rig(config);
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  constexpr std::size_t kBytes = 3000;
  auto source = rig.slab(kBytes);
  const auto filler = rig.stream();
  const auto given = pattern(kBytes, seed % 1000);
  ok(rig.driver->copy_in(*filler, at(source), given.data(), kBytes));
  rig.finish(*filler);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < 6; ++worker) {
    threads.emplace_back([&, worker] {
      std::mt19937 random(seed + static_cast<unsigned>(worker));
      auto stream = rig.driver->make_stream(worker % 3, worker / 3);
      const auto in = pattern(kBytes, worker);
      for (Ticket ticket = 1; stream && ticket <= 30; ++ticket) {
        auto slab = rig.driver->alloc(worker % 3, kBytes, 64, random() % 4 == 0 ? MemoryMode::pinned_host : MemoryMode::device);
        std::vector<std::uint8_t> out(kBytes);
        const bool own = random() % 2 == 0;
        bool good = bool(slab);
        good = good && (own ? rig.driver->copy_in(**stream, at(*slab), in.data(), kBytes)
                            : rig.driver->copy(**stream, at(*slab), at(source), kBytes));
        good = good && rig.driver->copy_out(**stream, out.data(), at(*slab), kBytes) && rig.driver->record(**stream, ticket);
        auto done = rig.driver->finish(**stream, ticket, {});
        wrong += good && done && *done && out == (own ? in : given) ? 0 : 1;
      }
      wrong += stream ? 0 : 1;
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
}

}  // namespace kime::test
