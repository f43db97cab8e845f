// Elementary functions in float64 as fixed sequences of IEEE additions, multiplications and divisions: the same bits on every CPU, with
// every compiler and C library. A libm's results change with its version and with the CPU's instructions; these may reach an output.
//
// They need round-to-nearest and no contraction of a product and a sum into one FMA (-ffp-contract=off). Nothing in them is subnormal
// for an input that is not, so that flushing subnormals changes nothing.
#pragma once

namespace kime::fixed {

/// e^x within 1 ulp. Under about -708.4, where the result would be subnormal, exactly 0; infinity over 709.78; NaN for NaN.
[[nodiscard]] double exp(double x);

/// The natural logarithm within 1 ulp. Minus infinity for 0, and for subnormal numbers; NaN for negative numbers and NaN.
[[nodiscard]] double log(double x);

struct SinCos {
  double sin = 0;
  double cos = 0;
};

/// Sine and cosine within 2e-16 for |x| <= 2^32; NaN beyond, which no rotary embedding reaches.
[[nodiscard]] SinCos sincos(double x);

/// base^exponent as exp(exponent log(base)) for base > 0: a relative error of about (1 + |exponent log(base)|) 2^-52.
[[nodiscard]] double pow(double base, double exponent);

}  // namespace kime::fixed
