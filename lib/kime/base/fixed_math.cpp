#include "kime/base/fixed_math.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace kime::fixed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ln 2 and pi / 2 in parts of few enough bits that an integer factor times a part is exact: ln 2 in one of 32 bits (factors are under 2^11)
// and the rest; pi / 2 in three of 21 bits (factors are under 2^32) and the rest.
constexpr double kLn2Head = 0x1.62e42fee00000p-1;
constexpr double kLn2Tail = 0x1.a39ef35793c76p-33;
constexpr double kHalfPi1 = 0x1.921fb00000000p+0;
constexpr double kHalfPi2 = 0x1.5110b00000000p-22;
constexpr double kHalfPi3 = 0x1.1846900000000p-44;
constexpr double kHalfPi4 = 0x1.13198a2e03707p-65;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// The nearest integer, for |x| < 2^51: adding 3 * 2^51 leaves no bits for a fraction.
double round_to_integer(double x) {
  constexpr double kShift = 0x1.8p52;
  return (x + kShift) - kShift;
}

// 2^n for a normal result.
double power_of_two(std::int64_t n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52U);
}

// c[0] + c[1] x + ... by Horner's rule.
template <std::size_t N>
double polynomial(const std::array<double, N>& c, double x) {
  double sum = c[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) {
    sum = sum * x + c[i];
  }
  return sum;
}

// sign / first!, sign^2 / (first + step)!, ...: Taylor coefficients.
template <std::size_t N>
constexpr std::array<double, N> inverse_factorials(int first, int step, double sign) {
  std::array<double, N> c = {};
  double factorial = 1;
  for (int i = 2; i <= first; ++i) {
    factorial *= i;
  }
  double s = sign;
  int n = first;
  for (std::size_t i = 0; i < N; ++i) {
    c[i] = s / factorial;
    s *= sign;
    for (int j = 0; j < step; ++j) {
      factorial *= ++n;
    }
  }
  return c;
}

// The reduced argument of sincos: head + tail, at most about pi / 4, and the quarter turns that were taken off, mod 4.
struct Reduced {
  double head = 0;
  double tail = 0;
  unsigned quarter = 0;
};

Reduced reduce(double x) {
  const double k = round_to_integer(x * kTwoOverPi);
  // The first two differences are exact; the last two lose their rounding errors to the tail (Knuth's two-sum).
  double head = (x - k * kHalfPi1) - k * kHalfPi2;
  double tail = 0;
  for (const double part : {k * kHalfPi3, k * kHalfPi4}) {
    const double difference = head - part;
    const double back = difference - head;
    tail += (head - (difference - back)) - (part + back);
    head = difference;
  }
  return {.head = head, .tail = tail, .quarter = static_cast<unsigned>(static_cast<std::int64_t>(k) & 3)};
}

}  // namespace

double exp(double x) {
  if (x != x) {
    return x;
  }
  if (x < -0x1.6232bdd7abcd2p+9) {  // ln of the smallest normal number
    return 0;
  }
  if (x > 0x1.62e42fefa39efp+9) {  // ln of the largest number
    return kInfinity;
  }
  // x = k ln 2 + r + tail, |r| <= ln 2 / 2; e^r = 1 + (r + r^2 (1/2 + r/6 + ...)), and the tail to first order.
  const double k = round_to_integer(x * kInverseLn2);
  const double high = x - k * kLn2Head;
  const double low = k * kLn2Tail;
  const double r = high - low;
  const double tail = (high - r) - low;
  static constexpr auto kCoefficients = inverse_factorials<13>(2, 1, 1);
  const double e = 1 + (r + (r * r * polynomial(kCoefficients, r) + (tail + tail * r)));
  // 2^1024 is no number, so that the last factor of 2 comes by itself; and e 2^k is normal, since x is not below the limit.
  const auto n = static_cast<std::int64_t>(k);
  return n == 1024 ? e * 2 * power_of_two(1023) : n == -1023 ? e * 0.5 * power_of_two(-1022) : e * power_of_two(n);
}

double log(double x) {
  if (x != x || x < 0) {
    return kNaN;
  }
  if (x < std::numeric_limits<double>::min()) {
    return -kInfinity;
  }
  if (x == kInfinity) {
    return x;
  }
  // x = 2^k m with m in [sqrt(1/2), sqrt(2)).
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52U) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52U) - 1023;
  auto m = std::bit_cast<double>((bits & kMantissa) | (std::uint64_t{1023} << 52U));
  if (m >= 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  const auto k = static_cast<double>(exponent);
  // With f = m - 1, which is exact, and s = f / (2 + f): ln m = 2 atanh s = 2 s + s R, R = 2/3 s^2 + 2/5 s^4 + ...; and since
  // 2 s = f - s f = f - f^2 / 2 + s f^2 / 2, no rounding of s reaches the leading term.
  const double f = m - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  static constexpr std::array<double, 11> kCoefficients = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                                           2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  const double r = z * polynomial(kCoefficients, z);
  const double half = 0.5 * f * f;
  return k * kLn2Head + (f - (half - (s * (half + r) + k * kLn2Tail)));
}

SinCos sincos(double x) {
  if (!(x >= -0x1p32 && x <= 0x1p32)) {
    return {.sin = kNaN, .cos = kNaN};
  }
  const auto [r, tail, quarter] = reduce(x);
  const double z = r * r;
  static constexpr auto kSine = inverse_factorials<9>(3, 2, -1);
  static constexpr auto kCosine = inverse_factorials<8>(4, 2, -1);
  // sin(r + t) = sin r + t cos r, cos(r + t) = cos r - t sin r; the tail is so small that cos r = 1 - z / 2 and sin r = r do there.
  const double half = 0.5 * z;
  const double sine = r + (r * z * polynomial(kSine, z) + tail * (1 - half));
  const double w = 1 - half;
  const double cosine = w + (((1 - w) - half) - (z * z * polynomial(kCosine, z) + r * tail));
  switch (quarter) {
    case 0:
      return {.sin = sine, .cos = cosine};
    case 1:
      return {.sin = cosine, .cos = -sine};
    case 2:
      return {.sin = -sine, .cos = -cosine};
    default:
      return {.sin = -cosine, .cos = sine};
  }
}

double pow(double base, double exponent) {
  return exp(exponent * log(base));
}

}  // namespace kime::fixed
