// The shim finds what kernels must not do, whatever the order in which warps happen to run.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/device.h"

namespace kime::test {
namespace {

namespace shim = cuda::shim;
using Catch::Contains;
using cuda::load_global;
using cuda::store_global;

constexpr unsigned kThreads = 96;

struct Params {
  const float* in;
  float* out;
  unsigned variant;
};

struct Run {
  shim::Buffer<float> in{std::vector<float>(1024, 1.5F)};
  shim::Buffer<float> out{1024};

  void operator()(void (*kernel)(Params), unsigned variant, std::uint64_t seed, std::size_t shared_bytes = 0) {
    shim::launch("tested", kernel, {2, 1, 1}, {kThreads, 1, 1}, shared_bytes, {in.data(), out.data(), variant}, seed);
  }

  // The message of the fault, the same kind for each seed.
  void fails(void (*kernel)(Params), unsigned variant, const std::string& message, std::size_t shared_bytes = 0) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      REQUIRE_THROWS_WITH((*this)(kernel, variant, seed, shared_bytes),
                          Contains("kernel tested, block (") && Contains(message) && Contains("seed " + std::to_string(seed)));
    }
  }
};

// Each thread reads what its neighbour wrote.
void neighbour_kernel(Params p) {
  KIME_SHARED_ARRAY(float, row, kThreads);
  const unsigned i = threadIdx.x;
  row[i] = load_global(p.in + i) + static_cast<float>(i);
  if (p.variant != 1) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  const float next = row[(i + 1) % kThreads];
  if (p.variant == 2) {
    row[i] = 0;  // while others read
  }
  store_global(p.out + blockIdx.x * kThreads + i, next);
}

TEST_CASE("a missing barrier is a race, for every order of the warps") {
  Run run;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    run(&neighbour_kernel, 0, seed);
    REQUIRE(run.out[0] == 2.5F);
    REQUIRE(run.out[kThreads + 95] == 1.5F);
    REQUIRE(run.out.intact());
  }
  // A race, or a read before anything was written, as it comes.
  run.fails(&neighbour_kernel, 1, "shared memory");
  run.fails(&neighbour_kernel, 2, "race on shared memory");
}

void warp_kernel(Params p) {
  KIME_SHARED_ARRAY(float, row, kThreads);
  const unsigned i = threadIdx.x;
  row[i] = load_global(p.in + i);
  if (p.variant != 1) {
    __syncwarp();
  }
  store_global(p.out + i, static_cast<float>(row[i ^ 1U]));
}

TEST_CASE("lanes of a warp are ordered by __syncwarp, and by nothing else") {
  Run run;
  run(&warp_kernel, 0, 1);
  run.fails(&warp_kernel, 1, "shared memory");
}

void barrier_kernel(Params p) {
  const unsigned i = threadIdx.x;
  if (p.variant == 1 && i == 40) {
    return;
  }
  if (p.variant == 2 && i < 32) {
    __syncwarp();
    __syncthreads();
  }
  if (p.variant == 3 && i % 32 < 16) {
    store_global(p.out + i, cuda::shuffle_xor(1, 1));
  }
  __syncthreads();
  store_global(p.out + i, 1.0F);
}

TEST_CASE("a barrier that some threads do not reach is a deadlock that names them") {
  Run run;
  run(&barrier_kernel, 0, 1);
  run.fails(&barrier_kernel, 1, "95 threads at __syncthreads (the first: 0) 1 threads ended (the first: 40)");
  run.fails(&barrier_kernel, 2, "deadlock");
  run.fails(&barrier_kernel, 3, "48 threads at shuffle_xor (the first: 0) 48 threads at __syncthreads (the first: 16)");
}

void copy_kernel(Params p) {
  const unsigned i = threadIdx.x;
  const cuda::SharedPtr<float> row = cuda::shared_view<float>(cuda::dynamic_shared(), 2 * 4 * kThreads);
  for (unsigned stage = 0; stage < 2; ++stage) {
    cuda::cp_async_16(&row[(stage * kThreads + i) * 4], p.in + 4 * i, stage == 0);
    if (p.variant != 4) {
      cuda::cp_async_commit();
    }
  }
  if (p.variant == 1) {
    cuda::cp_async_wait<2>();
  } else if (p.variant != 2) {
    cuda::cp_async_wait<1>();
  }
  if (p.variant != 3) {
    __syncthreads();
  }
  store_global(p.out + i, static_cast<float>(row[(i + 1) % kThreads * 4]));
  if (p.variant != 5) {
    cuda::cp_async_wait<0>();
  }
  store_global(p.out + kThreads + i, static_cast<float>(row[(kThreads + i) * 4]));
}

TEST_CASE("a copy is there after the wait for its group, for others after a barrier, and no sooner") {
  Run run;
  const std::size_t bytes = sizeof(float) * 8 * kThreads;
  run(&copy_kernel, 0, 1, bytes);
  REQUIRE(run.out[3] == 1.5F);
  REQUIRE(run.out[kThreads + 3] == 0);
  run.fails(&copy_kernel, 1, "under way", bytes);
  run.fails(&copy_kernel, 2, "under way", bytes);
  run.fails(&copy_kernel, 3, "thread", bytes);  // a race or a copy under way, as it comes
  run.fails(&copy_kernel, 4, "under way", bytes);
  run.fails(&copy_kernel, 5, "under way", bytes);
  run.fails(&copy_kernel, 0, "outside shared memory", bytes - 256);
}

void access_kernel(Params p) {
  KIME_SHARED_ARRAY(float, row, 64);
  KIME_SHARED_ARRAY(float, other, 64);
  const unsigned i = threadIdx.x;
  switch (i == 50 ? p.variant : 0) {
    case 1:
      static_cast<void>(load_global(p.in + 1024));
      break;
    case 2:
      static_cast<void>(load_global(p.in - 1));
      break;
    case 3:
      store_global(p.out + 1024, 1.0F);
      break;
    case 4:
      static_cast<void>(load_global(reinterpret_cast<const float4*>(p.in + 1)));
      break;
    case 5:
      store_global(const_cast<float*>(p.in), 1.0F);
      break;
    case 6:
      other[0] = row[3];
      break;
    case 7:
      row[i + 14] = 1;
      break;
    case 8:
      cuda::cp_async_16(cuda::raw(row) + 1, p.in, true);
      break;
    case 9:
      cuda::cp_async_16(&row[0], p.in + 1, true);
      break;
    default:
      break;
  }
}

TEST_CASE("what is touched lies inside, is aligned and was written") {
  Run run;
  run(&access_kernel, 0, 1);
  run.fails(&access_kernel, 1, "reads 4 bytes at byte 4096 of a buffer of 4096");
  run.fails(&access_kernel, 2, "reads 4 bytes");
  run.fails(&access_kernel, 3, "writes 4 bytes at byte 4096 of a buffer of 4096");
  run.fails(&access_kernel, 4, "not a multiple of 16");
  run.fails(&access_kernel, 5, "only read");
  run.fails(&access_kernel, 6, "that nothing has written");
  run.fails(&access_kernel, 7, "element 64 of an array of 64");
  run.fails(&access_kernel, 8, "not a multiple of 16");
  run.fails(&access_kernel, 9, "not a multiple of 16");
}

void poison_kernel(Params p) {
  const auto* raw = reinterpret_cast<const float*>(cuda::dynamic_shared());
  store_global(p.out + threadIdx.x, raw[threadIdx.x]);
}

TEST_CASE("shared memory is NaN in each new block, also where no view watches") {
  Run run;
  run(&poison_kernel, 0, 1, kThreads * sizeof(float));
  REQUIRE(std::isnan(run.out[0]));
  REQUIRE_THROWS_WITH(run(&poison_kernel, 0, 1, shim::kMostDynamicBytes + 1), Contains("dynamic shared memory"));
  REQUIRE_THROWS_WITH(shim::launch("tested", &poison_kernel, {1, 1, 1}, {40, 1, 1}, 0, {nullptr, nullptr, 0}, 1), Contains("whole warps"));
}

TEST_CASE("the same seed gives the same order, others give others, and host threads do not disturb each other") {
  const auto faults = [](std::uint64_t first) {
    std::vector<std::string> texts;
    Run run;
    for (std::uint64_t seed = first; seed < first + 20; ++seed) {
      try {
        run(&neighbour_kernel, 1, seed);
      } catch (const shim::Fault& fault) {
        texts.emplace_back(fault.what());
      }
    }
    return texts;
  };
  const std::vector<std::string> want = faults(0);
  REQUIRE(want.size() == 20);
  std::vector<std::string> others[2];
  std::thread a([&] { others[0] = faults(0); });
  std::thread b([&] { others[1] = faults(0); });
  a.join();
  b.join();
  CHECK(others[0] == want);
  CHECK(others[1] == want);
  CHECK(want[0].substr(0, want[0].find("(seed")) != want[1].substr(0, want[1].find("(seed")));
}

void matrix_kernel(Params p) {
  KIME_SHARED_ARRAY(std::uint32_t, tile, 32 * 4);
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x < 32 && p.variant != 4) {
    for (unsigned i = 0; i < 4; ++i) {
      tile[4 * lane + i] = i;
    }
  } else if (threadIdx.x < 32) {
    cuda::cp_async_16(&tile[4 * lane], p.in + 4 * lane, true);
    cuda::cp_async_commit();
  }
  if (p.variant != 1) {
    __syncthreads();
  }
  const std::uint32_t* row = cuda::raw(tile) + 4 * lane;
  row += p.variant == 2 && lane == 31 ? 4 : 0;
  row += p.variant == 3 && lane == 7 ? 1 : 0;
  std::uint32_t r[4];
  if (threadIdx.x < 32) {
    cuda::ldmatrix_x4(r, row);
    store_global(p.out + lane, static_cast<float>(r[0] & 0xFFFFU));
  }
  if (p.variant == 5 && threadIdx.x == 40) {
    tile[17] = 1;  // perhaps while the first warp reads
  }
  if (p.variant == 6 && threadIdx.x < 32) {
    tile[4 * lane] = 1;  // after the whole warp has read
  }
  cuda::cp_async_wait<0>();
}

TEST_CASE("what ldmatrix reads is there for the whole warp, inside and aligned") {
  Run run;
  run(&matrix_kernel, 0, 1);
  REQUIRE(run.out[4] == 0);
  REQUIRE(run.out[7] == 3);
  run(&matrix_kernel, 6, 1);
  run.fails(&matrix_kernel, 1, "race on shared memory");
  run.fails(&matrix_kernel, 2, "outside shared memory");
  run.fails(&matrix_kernel, 3, "not a multiple of 16");
  run.fails(&matrix_kernel, 4, "under way");
  run.fails(&matrix_kernel, 5, "race on shared memory");
}

TEST_CASE("a copy that nobody waits for is named when its thread ends") {
  Run run;
  run.fails(
      [](Params p) {
        KIME_SHARED_ARRAY(float, row, 4);
        if (threadIdx.x == 9) {
          cuda::cp_async_16(&row[0], p.in, true);
        }
      },
      0, "thread 9 ended with copies under way");
}

TEST_CASE("kernels are found by name, with parameters of their size and no more threads than they are compiled for") {
  Run run;
  const Params params = {run.in.data(), run.out.data(), 0};
  shim::launch("shim_test_kernel", {1, 1, 1}, {64, 1, 1}, 0, params, 1);
  REQUIRE(run.out[63] == 63);
  REQUIRE_THROWS_WITH(shim::launch("shim_test_kernel", {1, 1, 1}, {96, 1, 1}, 0, params, 1), Contains("at most 64"));
  REQUIRE_THROWS_WITH(shim::launch("shim_test_kernel", {1, 1, 1}, {64, 1, 1}, 0, 1, 1), Contains("no kernel shim_test_kernel"));
  REQUIRE_THROWS_WITH(shim::launch("shim_test", {1, 1, 1}, {64, 1, 1}, 0, params, 1), Contains("no kernel shim_test"));
  REQUIRE(shim::find_kernel("kime_norm_f32")->most_threads == 256);
}

// Conversions against definitions: the nearest of all numbers of the type, the even one of two.
TEST_CASE("16-bit types round to the nearest, ties to even") {
  for (std::uint32_t bits = 0; bits < 0x7C00U; ++bits) {
    const __half low{static_cast<std::uint16_t>(bits)};
    const float value = cuda::to_float(low);
    REQUIRE(value == static_cast<float>(std::ldexp((bits & 0x3FFU) + (bits < 0x400U ? 0 : 1024),
                                                   bits < 0x400U ? -24 : static_cast<int>(bits >> 10) - 25)));
    REQUIRE(shim::half_of(value).bits == bits);
    REQUIRE(shim::half_of(-value).bits == (bits | 0x8000U));
    const float next = bits == 0x7BFFU ? 65536.0F : cuda::to_float(__half{static_cast<std::uint16_t>(bits + 1)});
    const float middle = (value + next) / 2;  // exact
    REQUIRE(shim::half_of(middle).bits == bits + (bits & 1U));
    REQUIRE(shim::half_of(std::nextafter(middle, 0.0F)).bits == bits);
    REQUIRE(shim::half_of(std::nextafter(middle, 1e9F)).bits == bits + 1);
  }
  REQUIRE(shim::half_of(1e9F).bits == 0x7C00U);
  REQUIRE(std::isnan(cuda::to_float(shim::half_of(std::nanf("")))));
  for (std::uint32_t bits = 0; bits < 0x7F7FU; ++bits) {
    const float value = cuda::to_float(__nv_bfloat16{static_cast<std::uint16_t>(bits)});
    const float middle = std::bit_cast<float>(bits << 16 | 0x8000U);
    REQUIRE(shim::bfloat16_of(value).bits == bits);
    REQUIRE(shim::bfloat16_of(middle).bits == bits + (bits & 1U));
    REQUIRE(shim::bfloat16_of(std::nextafter(middle, std::numeric_limits<float>::infinity())).bits == bits + 1);
    REQUIRE(shim::bfloat16_of(-std::nextafter(middle, 0.0F)).bits == (bits | 0x8000U));
  }
  REQUIRE(std::isnan(cuda::to_float(shim::bfloat16_of(std::nanf("")))));
  REQUIRE(std::isinf(cuda::to_float(shim::bfloat16_of(std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace kime::test

KIME_KERNEL(shim_test_kernel, kime::test::Params, 64) {
  kime::cuda::store_global(p.out + threadIdx.x, static_cast<float>(threadIdx.x));
}
