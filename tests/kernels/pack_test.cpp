// Packed weights: every element where the layout says, converted exactly, and nothing else touched.
#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/aligned.h"
#include "tests/kernels/each_target.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

using kernels::Element;
using kernels::Table;
using Sizes = std::initializer_list<std::size_t>;

constexpr float kUntouched = -77;

// The value of a half: sign, exponent, mantissa by the book.
float half_value(std::uint16_t h) {
  const int exponent = h >> 10U & 31;
  const int mantissa = h & 1023;
  float x = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24) : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  if (exponent == 31) {
    x = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  }
  return std::copysign(x, (h & 0x8000) != 0 ? -1.0F : 1.0F);
}

float value(const std::uint8_t* p, Element element) {
  if (element == Element::f32) {
    float x = 0;
    std::memcpy(&x, p, 4);
    return x;
  }
  std::uint16_t word = 0;
  std::memcpy(&word, p, 2);
  return element == Element::f16 ? half_value(word) : std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16U);
}

bool same(float a, float b) {
  return std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b) : bits(a) == bits(b);
}

// Random bytes, one past an even address; as float32 any pattern, NaN and subnormals among them.
std::vector<std::uint8_t> random_bytes(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint8_t> bytes(n + 1);
  for (std::uint8_t& b : bytes) {
    b = static_cast<std::uint8_t>(random.below(256));
  }
  return bytes;
}

// A matrix of n columns of which [column, column + rows) are packed.
void check(const Table& table, Element element, std::size_t n, std::size_t k, std::size_t column, std::size_t rows) {
  CAPTURE(static_cast<int>(element), n, k, column, rows);
  const std::vector<std::uint8_t> bytes = random_bytes(rows * k * size_of(element), n * k + rows);
  Guarded packed(kernels::packed_floats(n, k), 0, kUntouched);
  table.pack(bytes.data() + 1, element, rows, k, packed.data(), n, column);
  CHECK(packed.intact());
  std::vector<float> want(packed.size(), kUntouched);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t panel = (column + r) / 64;
    const std::size_t width = std::min<std::size_t>(64, (n - panel * 64 + 15) / 16 * 16);
    for (std::size_t i = 0; i < k; ++i) {
      want[panel * 64 * k + i * width + (column + r) % 64] = value(bytes.data() + 1 + (r * k + i) * size_of(element), element);
    }
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!same(packed[i], want[i])) {
      FAIL("packed float " << i << " is " << packed[i] << ", not " << want[i]);
    }
  }
}

}  // namespace

TEST_CASE("pack: every element in its place", "[pack]") {
  each_target([](const Table& table) {
    for (const Element element : {Element::f32, Element::f16, Element::bf16}) {
      for (const std::size_t n : Sizes{1, 2, 15, 16, 17, 33, 48, 63, 64, 65, 80, 130}) {
        for (const std::size_t k : Sizes{1, 3, 4, 5, 16, 63, 64, 65, 70, 129}) {
          check(table, element, n, k, 0, n);
        }
      }
    }
  });
}

TEST_CASE("pack: a matrix from several weights, in any portions", "[pack]") {
  each_target([](const Table& table) {
    for (const Element element : {Element::f32, Element::f16, Element::bf16}) {
      check(table, element, 200, 33, 16, 1);
      check(table, element, 200, 33, 48, 100);
      check(table, element, 200, 33, 64, 64);
      check(table, element, 200, 33, 192, 8);
      check(table, element, 128, 20, 32, 32);  // a geglu half
      check(table, element, 128, 20, 96, 17);
    }
  });
}

TEST_CASE("pack: every half and every bfloat16", "[pack]") {
  std::vector<std::uint16_t> words(65536);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint16_t>(i);
  }
  each_target([&](const Table& table) {
    for (const Element element : {Element::f16, Element::bf16}) {
      Aligned packed(kernels::packed_floats(16, 4096));
      table.pack(words.data(), element, 16, 4096, packed.data(), 16, 0);
      for (std::size_t i = 0; i < words.size(); ++i) {
        const float got = packed.data()[i % 4096 * 16 + i / 4096];
        if (!same(got, value(reinterpret_cast<const std::uint8_t*>(&words[i]), element))) {
          FAIL("word " << i << " became " << got);
        }
      }
    }
  });
}

}  // namespace kime::test
