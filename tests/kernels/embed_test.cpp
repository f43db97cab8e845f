// The embedding lookup and its exact conversions, and adding a row, on every target.
#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/each_target.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

using kernels::Element;
using kernels::Table;

// A half by IEEE 754's words: sign, exponent and fraction read separately. A NaN keeps its payload at the top of the fraction.
float half_value(std::uint16_t h) {
  const bool negative = (h & 0x8000) != 0;
  const int exponent = (h >> 10) & 31;
  const int fraction = h & 1023;
  float magnitude = 0;
  if (exponent == 31) {
    magnitude = std::bit_cast<float>(0x7F800000U | static_cast<std::uint32_t>(fraction) << 13);
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return std::bit_cast<float>(bits(magnitude) | (negative ? 0x80000000U : 0U));
}

float bfloat_value(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

float value_at(const std::vector<std::uint8_t>& bytes, std::size_t offset, Element element, std::size_t i) {
  if (element == Element::f32) {
    float x = 0;
    std::memcpy(&x, bytes.data() + offset + i * 4, 4);
    return x;
  }
  std::uint16_t w = 0;
  std::memcpy(&w, bytes.data() + offset + i * 2, 2);
  return element == Element::f16 ? half_value(w) : bfloat_value(w);
}

TEST_CASE("every half and every bfloat16 becomes its float32 exactly") {
  std::vector<std::uint16_t> words(65536);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint16_t>(i);
  }
  const std::uint32_t id = 0;
  each_target([&](const Table& table) {
    std::vector<float> out(words.size());
    table.embed(words.data(), Element::f16, &id, 1, words.size(), out.data(), words.size());
    for (std::size_t i = 0; i < words.size(); ++i) {
      INFO("half " << i);
      REQUIRE(bits(out[i]) == bits(half_value(words[i])));
    }
    table.embed(words.data(), Element::bf16, &id, 1, words.size(), out.data(), words.size());
    for (std::size_t i = 0; i < words.size(); ++i) {
      INFO("bfloat16 " << i);
      REQUIRE(bits(out[i]) == bits(bfloat_value(words[i])));
    }
  });
}

TEST_CASE("embed copies the rows asked for, of any width, type and alignment, and nothing else") {
  constexpr std::size_t kTableRows = 9;
  const std::vector<std::uint32_t> ids = {8, 0, 3, 3, 7};
  Random random(11);
  each_target([&](const Table& table) {
    for (const Element element : {Element::f32, Element::f16, Element::bf16}) {
      for (const std::size_t width : std::vector<std::size_t>{1, 2, 7, 15, 16, 17, 31, 33, 64, 70, 129, 768}) {
        const std::size_t offset = width % 3;
        std::vector<std::uint8_t> weights(offset + kTableRows * width * size_of(element));  // No byte to spare at the end.
        for (std::uint8_t& byte : weights) {
          byte = static_cast<std::uint8_t>(random.below(256));
        }
        const std::size_t ldo = width + width % 4;
        Guarded out((ids.size() - 1) * ldo + width, 1, 42.0F);
        table.embed(weights.data() + offset, element, ids.data(), ids.size(), width, out.data(), ldo);
        REQUIRE(out.intact());
        for (std::size_t i = 0; i < out.size(); ++i) {
          const bool inside = i % ldo < width;
          const float want = inside ? value_at(weights, offset, element, ids[i / ldo] * width + i % ldo) : 42.0F;
          REQUIRE(bits(out[i]) == bits(want));
        }
      }
    }
  });
}

TEST_CASE("adding a row is elementwise and stays within the width") {
  Random random(12);
  each_target([&](const Table& table) {
    for (std::size_t width = 0; width <= 70; ++width) {
      Guarded in(width, width % 5);
      Guarded out(width, width % 7);
      std::vector<float> want(width);
      for (std::size_t i = 0; i < width; ++i) {
        in[i] = random.normal();
        out[i] = random.normal();
        want[i] = out[i] + in[i];
      }
      table.add(in.data(), width, out.data());
      REQUIRE(in.intact());
      REQUIRE(out.intact());
      REQUIRE(first_difference(want, out.span()).empty());
    }
  });
}

}  // namespace
}  // namespace kime::test
