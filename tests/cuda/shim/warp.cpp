#include "tests/cuda/shim/warp.h"

#include <array>
#include <cstring>

namespace kime::cuda::shim {

namespace {

struct Exchange {
  float value;
  unsigned from;
  float result;
};

struct Load {
  std::uint32_t* registers;
  unsigned count;
  const void* row;
  bool transposed;
};

struct Product {
  float* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
};

template <class What>
What& of(void* lane) {
  return *static_cast<What*>(lane);
}

std::uint16_t half_word(std::uint32_t pair, unsigned index) {
  return static_cast<std::uint16_t>(pair >> (16 * index));
}

void complete_exchange(const std::array<void*, kWarp>& lanes) {
  for (void* lane : lanes) {
    auto& own = of<Exchange>(lane);
    own.result = of<Exchange>(lanes[own.from]).value;
  }
}

// Matrix m's rows are named by lanes 8 m to 8 m + 7. Lane l gets of each matrix, in the low and the high half of a register, the elements
// 2 (l % 4) and the next of row l / 4; with .trans, of column l / 4.
void complete_load(const std::array<void*, kWarp>& lanes) {
  const unsigned count = of<Load>(lanes[0]).count;
  const bool transposed = of<Load>(lanes[0]).transposed;
  Block& block = Block::current();
  for (unsigned m = 0; m < count; ++m) {
    std::uint16_t matrix[8][8];
    for (unsigned r = 0; r < 8; ++r) {
      const void* row = of<Load>(lanes[8 * m + r]).row;
      block.read_shared_by_warp(row, sizeof(matrix[r]), 8 * m + r);
      std::memcpy(matrix[r], row, sizeof(matrix[r]));
    }
    for (unsigned l = 0; l < kWarp; ++l) {
      const unsigned major = l / 4;
      const unsigned minor = 2 * (l % 4);
      const std::uint16_t low = transposed ? matrix[minor][major] : matrix[major][minor];
      const std::uint16_t high = transposed ? matrix[minor + 1][major] : matrix[major][minor + 1];
      of<Load>(lanes[l]).registers[m] = low | static_cast<std::uint32_t>(high) << 16;
    }
  }
}

// The fragments as the PTX manual gives them for .m16n8k16 with 16-bit elements, groupID = lane >> 2 and tig = lane % 4:
//   a_i: row groupID for i in 0, 1, 4, 5, else groupID + 8; column 2 tig + (i & 1), + 8 for i >= 4
//   b_i: row 2 tig + (i & 1), + 8 for i >= 2; column groupID
//   c_i: row groupID, + 8 for i >= 2; column 2 tig + (i & 1)
// A product of two 16-bit elements is exact in float32, so that each step is an FMA. The order over k is ours.
template <class T>
void complete_product(const std::array<void*, kWarp>& lanes) {
  float a[16][16];
  float b[16][8];
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const auto& own = of<Product>(lanes[lane]);
    const unsigned group = lane >> 2;
    const unsigned tig = lane % 4;
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned row = (i & 2U) == 0 ? group : group + 8;
      a[row][2 * tig + (i & 1U) + (i >= 4 ? 8 : 0)] = float_of(T{half_word(own.a[i / 2], i & 1U)});
    }
    for (unsigned i = 0; i < 4; ++i) {
      b[2 * tig + (i & 1U) + (i >= 2 ? 8 : 0)][group] = float_of(T{half_word(own.b[i / 2], i & 1U)});
    }
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const auto& own = of<Product>(lanes[lane]);
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = (lane >> 2) + (i >= 2 ? 8 : 0);
      const unsigned column = 2 * (lane % 4) + (i & 1U);
      float sum = own.d[i];
      for (unsigned k = 0; k < 16; ++k) {
        sum += a[row][k] * b[k][column];
      }
      own.d[i] = sum;
    }
  }
}

}  // namespace

float exchange(float value, unsigned from, const char* name) {
  Exchange own{value, from, 0};
  Block::current().meet(&complete_exchange, name, &own);
  return own.result;
}

void load_matrices(std::uint32_t* registers, unsigned count, const void* row, bool transposed) {
  Load own{registers, count, row, transposed};
  Block::current().meet(&complete_load, "ldmatrix", &own);
}

template <class T>
void multiply(float* d, const std::uint32_t* a, const std::uint32_t* b) {
  Product own{d, a, b};
  Block::current().meet(&complete_product<T>, "mma", &own);
}
template void multiply<__half>(float* d, const std::uint32_t* a, const std::uint32_t* b);
template void multiply<__nv_bfloat16>(float* d, const std::uint32_t* a, const std::uint32_t* b);

}  // namespace kime::cuda::shim
