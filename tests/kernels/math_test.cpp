// exp, ln and gelu against float64, over the whole range of floats and densely where it matters, on every target, with the same bits.
#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/each_target.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

using kernels::Table;
using Function = void (*Table::*)(const float*, std::size_t, float*);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every `step`-th float by its bits, then 50,000 evenly in [low, high].
std::vector<float> sweep(std::uint64_t step, float low, float high) {
  std::vector<float> x;
  for (std::uint64_t b = 0; b <= 0xFFFFFFFFU; b += step) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(b)));
  }
  for (int i = 0; i <= 50000; ++i) {
    x.push_back(low + (high - low) * static_cast<float>(i) / 50000);
  }
  return x;
}

std::vector<float> apply(const Table& table, Function function, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  (table.*function)(x.data(), x.size(), y.data());
  return y;
}

float apply(const Table& table, Function function, float x) {
  return apply(table, function, std::vector<float>{x})[0];
}

// `error(x, y)` is at most 1 where y is good enough. Every target is tested over `step`, the slow ones over 64 times that.
void check_sweep(Function function, std::uint64_t step, float low, float high, const std::function<double(float, float)>& error) {
  each_target([&](const Table& table) {
    const std::vector<float> x = sweep(is_slow(table) ? step * 64 : step, low, high);
    const std::vector<float> y = apply(table, function, x);
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double e = error(x[i], y[i]);
      if (!(e <= worst)) {
        worst = e;
        at = x[i];
      }
    }
    INFO("worst at " << at << ", of bits " << bits(at));
    CHECK(worst <= 1.0);
  });
}

double exp_error(float x, float y) {
  if (x < -86.5F) {
    return y == 0 && !std::signbit(y) ? 0 : kInfinity;
  }
  return ulps(y, std::exp(static_cast<double>(x))) / 1.1;
}

double log_error(float x, float y) {
  return ulps(y, std::log(static_cast<double>(x)));
}

// Half an ulp and a little of max(1, |x|) absolutely, and for small x a relative bound; -inf has the limit.
double gelu_error(float x, float y) {
  if (std::isnan(x) || std::isinf(x)) {
    return ulps(y, x < 0 ? 0.0 : x);
  }
  const double error = std::fabs(y - gelu(x));
  const double absolute = error / (1.12 * kUnit * std::max(1.0, std::fabs(static_cast<double>(x))));
  return x > -1 ? std::max(absolute, ulps(y, gelu(x)) / 2.5) : absolute;
}

TEST_CASE("exp is within 1.1 ulp, 0 below its constant and infinite above") {
  check_sweep(&Table::exp, 4099, -88, 90, exp_error);
  each_target([](const Table& table) {
    CHECK(bits(apply(table, &Table::exp, 0.0F)) == bits(1.0F));
    CHECK(bits(apply(table, &Table::exp, -0.0F)) == bits(1.0F));
    CHECK(bits(apply(table, &Table::exp, -kInfinity)) == 0);
    CHECK(apply(table, &Table::exp, -86.5F) > 0x1p-126F);
    CHECK(bits(apply(table, &Table::exp, std::nextafterf(-86.5F, -kInfinity))) == 0);
    CHECK(apply(table, &Table::exp, 0x1.62e42ep6F) < kInfinity);
    CHECK(apply(table, &Table::exp, 0x1.62e430p6F) == kInfinity);
  });
}

TEST_CASE("ln is within an ulp, also of subnormals, and has ln's limits") {
  check_sweep(&Table::log, 4099, 0.001F, 2, log_error);
  each_target([](const Table& table) {
    CHECK(bits(apply(table, &Table::log, 1.0F)) == 0);
    CHECK(apply(table, &Table::log, 0.0F) == -kInfinity);
    CHECK(apply(table, &Table::log, -0.0F) == -kInfinity);
    CHECK(apply(table, &Table::log, kInfinity) == kInfinity);
    CHECK(std::isnan(apply(table, &Table::log, -1.0F)));
    CHECK(std::isnan(apply(table, &Table::log, -0x1p-130F)));
  });
}

TEST_CASE("gelu is within rounding of x Phi(x)") {
  check_sweep(&Table::gelu, 4099, -14, 14, gelu_error);
  each_target([](const Table& table) {
    CHECK(apply(table, &Table::gelu, 0.0F) == 0);
    CHECK(apply(table, &Table::gelu, kInfinity) == kInfinity);
    CHECK(apply(table, &Table::gelu, -kInfinity) == 0);
    CHECK(apply(table, &Table::gelu, 100.0F) == 100.0F);
    CHECK(apply(table, &Table::gelu, -100.0F) == 0);
    CHECK(apply(table, &Table::gelu, std::numeric_limits<float>::max()) == std::numeric_limits<float>::max());
  });
}

TEST_CASE("gelu of negative numbers keeps its relative accuracy") {
  each_target([](const Table& table) {
    for (float x = -12.9F; x < 0; x += 0.001F) {
      const double want = gelu(x);
      // What the polynomial is fitted to: 2e-9 absolutely, 1e-3 relatively where that is less, on top of a few roundings.
      const double allowed = std::fabs(want) * 1.5e-3;
      const double error = std::fabs(apply(table, &Table::gelu, x) - want);
      INFO("x " << x << " error " << error);
      REQUIRE(error <= std::min(allowed, 4e-9 + 3e-7 * std::fabs(want)));
    }
  });
}

TEST_CASE("exp, ln and gelu over one float in 257", "[slow]") {
  check_sweep(&Table::exp, 257, -88, 90, exp_error);
  check_sweep(&Table::log, 257, 0.001F, 2, log_error);
  check_sweep(&Table::gelu, 257, -14, 14, gelu_error);
}

TEST_CASE("exp, ln and gelu give the same bits on every target") {
  for (const Function function : {&Table::exp, &Table::log, &Table::gelu}) {
    std::vector<float> x = sweep(65521, -90, 90);
    std::erase_if(x, [](float v) { return std::isnan(v); });  // Which NaN comes out is not promised.
    const std::vector<float> want = apply(*kernels::tables().back(), function, x);
    each_target([&](const Table& table) {
      std::vector<float> got = apply(table, function, x);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(got[i]) && std::isnan(want[i])) {
          got[i] = want[i];
        }
      }
      CHECK(first_difference(want, got).empty());
    });
  }
}

TEST_CASE("the array forms of exp, ln and gelu stay within their n elements") {
  each_target([](const Table& table) {
    for (const Function function : {&Table::exp, &Table::log, &Table::gelu}) {
      for (std::size_t n = 0; n <= 70; ++n) {
        Guarded in(n, n % 5, 0.5F);
        Guarded out(n, n % 3);
        (table.*function)(in.data(), n, out.data());
        REQUIRE(in.intact());
        REQUIRE(out.intact());
        const float one = apply(table, function, 0.5F);
        REQUIRE(std::all_of(out.span().begin(), out.span().end(), [&](float y) { return bits(y) == bits(one); }));
      }
    }
  });
}

}  // namespace
}  // namespace kime::test
