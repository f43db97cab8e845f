// The shim's ldmatrix, mma and shuffles, held against the tables of the PTX manual, transcribed the other way round than the shim has them.
#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/device.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

namespace shim = cuda::shim;
using cuda::load_global;
using cuda::store_global;
using cuda::Type;

constexpr dim3 kOne{1, 1, 1};
constexpr dim3 kWarpBlock{32, 1, 1};

struct LoadParams {
  const std::uint16_t* in;  ///< count x 8 rows x 8
  std::uint32_t* out;       ///< [lane][count]
  bool transposed;
};

template <int Count>
void load_kernel(LoadParams p) {
  KIME_SHARED_ARRAY(std::uint16_t, tile, 8 * 8 * Count);
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 64 * Count; i += 32) {
    tile[i] = load_global(p.in + i);
  }
  __syncthreads();
  std::uint32_t r[Count];
  const void* row = &tile[lane % (8 * Count) * 8];
  if constexpr (Count == 4) {
    p.transposed ? cuda::ldmatrix_x4_trans(r, row) : cuda::ldmatrix_x4(r, row);
  } else {
    p.transposed ? cuda::ldmatrix_x2_trans(r, row) : cuda::ldmatrix_x2(r, row);
  }
  for (unsigned m = 0; m < Count; ++m) {
    store_global(p.out + lane * Count + m, r[m]);
  }
}

// The manual's picture: row 0 of the matrix lies in threads 0 to 3, two elements each, row 1 in threads 4 to 7, and so on.
template <int Count>
void check_load() {
  std::vector<std::uint16_t> values(64 * Count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint16_t>(1000 + i);
  }
  shim::Buffer<std::uint16_t> in(values);
  for (const bool transposed : {false, true}) {
    shim::Buffer<std::uint32_t> out(32 * Count);
    shim::launch("load", &load_kernel<Count>, kOne, kWarpBlock, 0, {in.data(), out.data(), transposed}, 7);
    for (std::size_t m = 0; m < Count; ++m) {
      for (std::size_t row = 0; row < 8; ++row) {
        for (std::size_t column = 0; column < 8; ++column) {
          const std::size_t major = transposed ? column : row;
          const std::size_t minor = transposed ? row : column;
          const std::uint32_t pair = out[(4 * major + minor / 2) * Count + m];
          REQUIRE((minor % 2 == 0 ? pair & 0xFFFFU : pair >> 16) == values[64 * m + 8 * row + column]);
        }
      }
    }
  }
}

TEST_CASE("ldmatrix deals out rows, or columns, as the manual's picture") {
  check_load<4>();
  check_load<2>();
}

struct ProductParams {
  const std::uint32_t* a;  ///< [lane][4]
  const std::uint32_t* b;  ///< [lane][2]
  float* d;                ///< [lane][4]
};

template <class T>
void product_kernel(ProductParams p) {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float d[4];
  const unsigned lane = threadIdx.x;
  for (unsigned i = 0; i < 4; ++i) {
    a[i] = load_global(p.a + 4 * lane + i);
    d[i] = load_global(p.d + 4 * lane + i);
  }
  for (unsigned i = 0; i < 2; ++i) {
    b[i] = load_global(p.b + 2 * lane + i);
  }
  cuda::mma_16816(d, a, b, Type<T>());
  for (unsigned i = 0; i < 4; ++i) {
    store_global(p.d + 4 * lane + i, d[i]);
  }
}

// Which thread holds elements (row, 2 j) and (row, 2 j + 1) of A, and in which of its registers, read off the manual's figure of A for
// .f16: four quadrants of 8 x 8, registers a0a1 above left, a2a3 below left, a4a5 above right, a6a7 below right; in each quadrant T0 to T3
// in the first row, T4 to T7 in the second.
constexpr std::array<std::array<unsigned, 2>, 2> kRegisterOfA = {{{0, 2}, {1, 3}}};  // [row / 8][column / 8]

template <class T>
void check_product() {
  Random random(3);
  float a[16][16];
  float b[16][8];
  float c[16][8];
  shim::Buffer<std::uint32_t> a_words(32 * 4);
  shim::Buffer<std::uint32_t> b_words(32 * 2);
  shim::Buffer<float> d(32 * 4);
  const auto put = [](std::uint32_t& word, std::size_t half, float value) {
    const std::uint32_t shift = 16 * static_cast<std::uint32_t>(half);
    word = (word & ~(0xFFFFU << shift)) | static_cast<std::uint32_t>(cuda::bits16(cuda::from_float(value, Type<T>()))) << shift;
  };
  const auto rounded = [&] { return cuda::to_float(cuda::from_float(random.normal(), Type<T>())); };
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 16; ++column) {
      a[row][column] = rounded();
      const std::size_t thread = 4 * (row % 8) + column % 8 / 2;
      put(a_words[4 * thread + kRegisterOfA[row / 8][column / 8]], column % 2, a[row][column]);
    }
    for (std::size_t column = 0; column < 8; ++column) {
      // B's figure: columns of T0 T1 T2 T3 downwards, b0b1 in rows 0 to 7, b2b3 in rows 8 to 15, the next four threads in the next column.
      b[row][column] = rounded();
      put(b_words[2 * (4 * column + row % 8 / 2) + row / 8], row % 2, b[row][column]);
      // C's figure: c0 and c1 in the upper 8 rows, c2 and c3 in the lower.
      c[row][column] = random.normal();
      d[4 * (4 * (row % 8) + column / 2) + 2 * (row / 8) + column % 2] = c[row][column];
    }
  }
  shim::launch("product", &product_kernel<T>, kOne, kWarpBlock, 0, {a_words.data(), b_words.data(), d.data()}, 5);
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      float want = c[row][column];
      for (std::size_t k = 0; k < 16; ++k) {
        want = std::fma(a[row][k], b[k][column], want);
      }
      REQUIRE(d[4 * (4 * (row % 8) + column / 2) + 2 * (row / 8) + column % 2] == want);
    }
  }
}

TEST_CASE("mma multiplies the fragments of the manual's figures") {
  check_product<__half>();
  check_product<__nv_bfloat16>();
}

struct ShuffleParams {
  const float* in;
  float* out;  ///< [4][lanes]
};

void shuffle_kernel(ShuffleParams p) {
  const unsigned i = threadIdx.x;
  const float v = load_global(p.in + i);
  store_global(p.out + i, cuda::shuffle_xor(v, 5));
  store_global(p.out + 64 + i, cuda::shuffle_down(v, 3));
  store_global(p.out + 128 + i, cuda::shuffle(v, 9));
  store_global(p.out + 192 + i, cuda::shuffle(v, static_cast<int>((i + 1) % 32)));
}

TEST_CASE("shuffles move values within their warp") {
  std::vector<float> values(64);
  for (std::size_t i = 0; i < 64; ++i) {
    values[i] = static_cast<float>(i);
  }
  shim::Buffer<float> in(values);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    shim::Buffer<float> out(256);
    shim::launch("shuffle", &shuffle_kernel, kOne, {64, 1, 1}, 0, {in.data(), out.data()}, seed);
    for (std::size_t i = 0; i < 64; ++i) {
      const std::size_t lane = i % 32;
      const std::size_t warp = i - lane;
      REQUIRE(out[i] == static_cast<float>(warp + (lane ^ 5U)));
      REQUIRE(out[64 + i] == static_cast<float>(lane + 3 < 32 ? i + 3 : i));
      REQUIRE(out[128 + i] == static_cast<float>(warp + 9));
      REQUIRE(out[192 + i] == static_cast<float>(warp + (lane + 1) % 32));
    }
  }
}

}  // namespace
}  // namespace kime::test
