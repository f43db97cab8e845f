// Layer norm against float64 on every target: odd widths, strides, in place, NaN around the row, and the same bits everywhere.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/each_target.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

using kernels::Table;

constexpr float kEps = 1e-5F;
constexpr std::size_t kRows = 7;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::size_t> widths() {
  std::vector<std::size_t> w;
  for (std::size_t i = 1; i <= 70; ++i) {
    w.push_back(i);
  }
  w.insert(w.end(), {127, 128, 129, 768, 1024, 4096});
  return w;
}

// Rows of `width` numbers, `stride` apart with NaN between, off by `mean` from 0.
struct Case {
  std::size_t width = 0;
  std::size_t stride = 0;
  std::vector<float> in;
  std::vector<float> weight;
  std::vector<float> bias;

  Case(std::size_t w, std::size_t gap, float mean, std::uint64_t seed) : width(w), stride(w + gap), in(kRows * (w + gap), kNaN) {
    Random random(seed);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t i = 0; i < w; ++i) {
        in[r * stride + i] = mean + random.normal();
      }
    }
    weight = random.normals(w);
    bias = random.normals(w);
  }

  [[nodiscard]] std::span<const float> row(std::size_t r) const { return {in.data() + r * stride, width}; }

  // The rows into a guarded array of stride `ldo`, NaN where nothing is written.
  [[nodiscard]] Guarded run(const Table& table, bool with_bias, std::size_t ldo) const {
    Guarded out((kRows - 1) * ldo + width, 3);
    table.layer_norm(in.data(), stride, kRows, width, weight.data(), with_bias ? bias.data() : nullptr, kEps, out.data(), ldo);
    return out;
  }
};

// Of sums over n numbers 16 chains run, each of n / 16 additions, then 4 more.
void check_row(std::span<const float> x, std::span<const float> weight, std::span<const float> bias, const float* got) {
  const std::vector<double> want = layer_norm(x, weight, bias, kEps);
  const auto allowed = layer_norm_bounds(x, weight, want, kEps, static_cast<double>(x.size()) / 16 + 5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO("column " << i << " of " << x.size());
    REQUIRE(std::fabs(got[i] - want[i]) <= allowed[i]);
  }
}

TEST_CASE("layer norm is the float64 one within rounding, for all widths and strides") {
  each_target([](const Table& table) {
    for (const std::size_t width : widths()) {
      for (const float mean : {0.0F, 30.0F}) {
        const Case c(width, width % 4, mean, width);
        for (const bool with_bias : {false, true}) {
          const std::size_t ldo = width + width % 3;
          Guarded out = c.run(table, with_bias, ldo);
          REQUIRE(out.intact());
          for (std::size_t r = 0; r < kRows; ++r) {
            check_row(c.row(r), c.weight, with_bias ? std::span<const float>(c.bias) : std::span<const float>(), &out[r * ldo]);
            for (std::size_t i = width; i < ldo && r + 1 < kRows; ++i) {
              REQUIRE(std::isnan(out[r * ldo + i]));  // Between the rows nothing is written.
            }
          }
        }
      }
    }
  });
}

TEST_CASE("layer norm gives the same bits on every target, in place, and for each row alone") {
  for (const std::size_t width : widths()) {
    const Case c(width, 5, 1.0F, width + 1000);
    Guarded want = c.run(*kernels::tables().back(), true, width);
    each_target([&](const Table& table) {
      Guarded got = c.run(table, true, width);
      REQUIRE(first_difference(want.span(), got.span()).empty());
      for (std::size_t r = 0; r < kRows; ++r) {
        Guarded row(width, r);
        std::copy(c.row(r).begin(), c.row(r).end(), row.data());
        table.layer_norm(row.data(), width, 1, width, c.weight.data(), c.bias.data(), kEps, row.data(), width);
        REQUIRE(row.intact());
        REQUIRE(first_difference(want.span().subspan(r * width, width), row.span()).empty());
      }
    });
  }
}

TEST_CASE("layer norm of a constant row is its bias, and of a NaN in a row spoils only that row") {
  each_target([](const Table& table) {
    Case c(50, 0, 0, 1);
    std::fill_n(c.in.begin(), 50, 0.75F);
    c.in[50 + 49] = kNaN;
    Guarded out = c.run(table, true, 50);
    for (std::size_t i = 0; i < 50; ++i) {
      REQUIRE(out[i] == c.bias[i]);
      REQUIRE(std::isnan(out[50 + i]));
      REQUIRE(std::isfinite(out[100 + i]));
    }
  });
}

}  // namespace
}  // namespace kime::test
