// The fixed float64 functions against the C library's long double ones.
#include "kime/base/fixed_math.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

using kime::fixed::sincos;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr unsigned kSeed = 20240917;

// |got - want| in units of the last place of want, which must be normal.
double ulps(double got, long double want) {
  const int exponent = std::ilogb(want);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 52));
}

TEST_CASE("exp is within an ulp, from underflow to overflow") {
  std::mt19937_64 random(kSeed);
  INFO("seed " << kSeed);
  double worst = 0;
  for (const double range : {1e-9, 0.5, 20.0, 708.0}) {
    std::uniform_real_distribution<double> uniform(-range, range);
    for (int i = 0; i < 100000; ++i) {
      const double x = uniform(random);
      worst = std::max(worst, ulps(kime::fixed::exp(x), std::exp(static_cast<long double>(x))));
    }
  }
  for (const double x : {0x1.62e42fefa39efp+9, -0x1.6232bdd7abcd2p+9, 709.5, 709.0, -708.0, -708.39}) {
    worst = std::max(worst, ulps(kime::fixed::exp(x), std::exp(static_cast<long double>(x))));
  }
  CAPTURE(worst);
  CHECK(worst < 0.9);
}

TEST_CASE("exp at its ends") {
  CHECK(kime::fixed::exp(0.0) == 1.0);
  CHECK(kime::fixed::exp(-0.0) == 1.0);
  CHECK(kime::fixed::exp(-708.5) == 0.0);
  CHECK(kime::fixed::exp(-1e300) == 0.0);
  CHECK(kime::fixed::exp(-kInfinity) == 0.0);
  CHECK_FALSE(std::signbit(kime::fixed::exp(-kInfinity)));
  CHECK(kime::fixed::exp(kInfinity) == kInfinity);
  CHECK(kime::fixed::exp(710.0) == kInfinity);
  CHECK(std::isnan(kime::fixed::exp(kNaN)));
}

TEST_CASE("log is within an ulp, around 1 and over all exponents") {
  std::mt19937_64 random(kSeed);
  INFO("seed " << kSeed);
  double worst = 0;
  const auto check = [&worst](double x) {
    if (x != 1) {
      worst = std::max(worst, ulps(kime::fixed::log(x), std::log(static_cast<long double>(x))));
    }
  };
  std::uniform_real_distribution<double> near_one(0.5, 2.0);
  std::uniform_real_distribution<double> close(-1e-6, 1e-6);
  std::uniform_real_distribution<double> exponents(-1022, 1023);
  for (int i = 0; i < 200000; ++i) {
    check(near_one(random));
    check(1 + close(random));
    check(std::exp2(exponents(random)));
  }
  for (const double x : {0x1.6a09e667f3bccp+0, 0x1.6a09e667f3bcdp+0, std::nextafter(1.0, 0.0), std::nextafter(1.0, 2.0),
                         std::numeric_limits<double>::min(), std::numeric_limits<double>::max()}) {
    check(x);
  }
  CAPTURE(worst);
  CHECK(worst < 1.0);
}

TEST_CASE("log at its ends") {
  CHECK(kime::fixed::log(1.0) == 0.0);
  CHECK(kime::fixed::log(0.0) == -kInfinity);
  CHECK(kime::fixed::log(-0.0) == -kInfinity);
  CHECK(kime::fixed::log(std::numeric_limits<double>::denorm_min()) == -kInfinity);
  CHECK(kime::fixed::log(kInfinity) == kInfinity);
  CHECK(std::isnan(kime::fixed::log(-1.0)));
  CHECK(std::isnan(kime::fixed::log(-kInfinity)));
  CHECK(std::isnan(kime::fixed::log(kNaN)));
}

TEST_CASE("sine and cosine are good to 2e-16, also close to multiples of pi / 2 and for large arguments") {
  std::mt19937_64 random(kSeed);
  INFO("seed " << kSeed);
  long double worst = 0;
  const auto check = [&worst](double x) {
    const auto got = sincos(x);
    worst = std::max(worst, std::fabs(got.sin - std::sin(static_cast<long double>(x))));
    worst = std::max(worst, std::fabs(got.cos - std::cos(static_cast<long double>(x))));
  };
  for (const double range : {1e-8, 1.0, 100.0, 1e6, 0x1p32}) {
    std::uniform_real_distribution<double> uniform(-range, range);
    for (int i = 0; i < 50000; ++i) {
      check(uniform(random));
      check(static_cast<float>(uniform(random)));
    }
  }
  for (int k = -1000; k <= 1000; ++k) {
    check(k * 0x1.921fb54442d18p+0);
    check(k * 0x1.921fb54442d18p-1);
    check(k * 1000 * 0x1.921fb54442d18p+0);
  }
  CAPTURE(worst);
  CHECK(worst < 2e-16L);
}

TEST_CASE("small sines keep their relative precision") {
  for (const double x : {1e-300, 1e-20, 1e-5, 0.1}) {
    CHECK(ulps(sincos(x).sin, std::sin(static_cast<long double>(x))) < 1);
    CHECK(sincos(-x).sin == -sincos(x).sin);
    CHECK(sincos(-x).cos == sincos(x).cos);
  }
  CHECK(sincos(0).sin == 0.0);
  CHECK(sincos(0).cos == 1.0);
  // The float64 next to pi is 1.2246467991473532e-16 short of it.
  CHECK(sincos(0x1.921fb54442d18p+1).sin == Approx(1.2246467991473532e-16).epsilon(1e-14));
}

TEST_CASE("sincos has no answer beyond 2^32") {
  for (const double x : {0x1.0000000000001p32, -0x1p33, kInfinity, -kInfinity, kNaN}) {
    CHECK(std::isnan(sincos(x).sin));
    CHECK(std::isnan(sincos(x).cos));
  }
}

TEST_CASE("pow serves a rope table: every frequency rounds to the right float32") {
  for (const float theta : {10000.0F, 160000.0F, 500000.0F}) {
    for (int width = 8; width <= 128; width += 8) {
      for (int i = 0; i < width / 2; ++i) {
        const double x = 2.0 * i / width;
        const double got = kime::fixed::pow(theta, x);
        const long double want = std::pow(static_cast<long double>(theta), static_cast<long double>(x));
        CHECK(std::fabs(got - want) <= want * 4e-15L);
        CHECK(static_cast<float>(got) == static_cast<float>(want));
      }
    }
  }
  CHECK(kime::fixed::pow(10000.0, 0.0) == 1.0);
}

// The promise is the same bits everywhere, so some of them stand here: a compiler that contracts, reorders or folds otherwise shows.
TEST_CASE("the bits are fixed") {
  std::uint64_t digest = 14695981039346656037U;
  const auto fold = [&digest](double x) { digest = (digest ^ std::bit_cast<std::uint64_t>(x)) * 1099511628211U; };
  std::uint64_t state = 1;
  for (int i = 0; i < 10000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const double unit = static_cast<double>(state >> 11U) * 0x1p-53;
    fold(kime::fixed::exp(-50 * unit));
    fold(kime::fixed::log(unit + 1e-9));
    fold(sincos(20000 * unit).sin);
    fold(sincos(20000 * unit).cos);
    fold(kime::fixed::pow(160000, unit));
  }
  CHECK(digest == 0xc2050f269bbeae3fU);
}

}  // namespace
