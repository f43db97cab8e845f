// A fake driver and what tests say about it.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kime/backend/cuda/cuda_driver.h"
#include "tests/cuda/fake/fake_cuda.h"
#include "tests/support/results.h"

namespace kime::test {

using Catch::Matchers::Contains;
using cuda::Code;

/// Why a result is not there; "" where it is.
template <class T>
std::string why(const Result<T>& result) {
  return result ? "" : result.error().message();
}

inline Place<cuda::Slab> at(cuda::Slab& slab, std::size_t offset = 0) {
  return {&slab, offset};
}

inline CudaDriver::Config over_fake() {
  CudaDriver::Config config;
  config.table = &FakeCuda::api();
  config.cublaslt = {KIME_FAKE_CUBLASLT};
  config.images = {"an image"};
  return config;
}

inline FakeCudaConfig gpus(std::size_t count) {
  FakeCudaConfig config;
  config.gpus.assign(count, {});
  return config;
}

/// The driver over a fake. When it ends, nothing is left and no rule was broken.
class Rig {
 public:
  explicit Rig(FakeCudaConfig config = {}) : fake(std::move(config)), driver(get(CudaDriver::open(over_fake()))) {}
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  ~Rig() {
    fake.release();
    const std::size_t count = driver->num_devices();
    bool alive = true;
    for (std::size_t i = 0; i < count; ++i) {
      alive = alive && driver->alive(i);
    }
    driver.reset();
    if (!lost_memory) {
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(fake.used_bytes(i) == 0);
      }
      if (alive) {
        CHECK(fake.handles() == 0);
        CHECK(fake.host_bytes() == 0);
      }
    }
    CHECK(fake.violations() == std::vector<std::string>());
  }

  [[nodiscard]] std::unique_ptr<cuda::Stream> stream(std::size_t ordinal = 0) { return get(driver->make_stream(ordinal, 0)); }
  [[nodiscard]] cuda::Slab slab(std::size_t bytes, std::size_t ordinal = 0, MemoryMode mode = MemoryMode::device) {
    return get(driver->alloc(ordinal, bytes, 64, mode));
  }
  /// Marks the stream's end and waits for it.
  void finish(cuda::Stream& stream) {
    ok(driver->record(stream, ++ticket));
    REQUIRE(get(driver->finish(stream, ticket, {})));
  }

  FakeCuda fake;
  std::unique_ptr<CudaDriver> driver;
  Ticket ticket = 0;
  bool lost_memory = false;  ///< A test has made a function fail that gives memory back.
};

inline Deadline in(int milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

/// Bytes of which none is like its neighbours.
inline std::vector<std::uint8_t> pattern(std::size_t count, std::size_t seed = 1) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::uint8_t>((i * 7 + i / 251 + seed) % 255 + 1);
  }
  return bytes;
}

}  // namespace kime::test
