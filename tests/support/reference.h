// What kernel tests hold their results against: float64 references, tolerances, and buffers whose surroundings are watched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace kime::test {

/// The unit roundoff of float32, 2^-24: one correctly rounded operation is wrong by at most this part of its result.
inline constexpr double kUnit = 0x1p-24;

/// The bits of a float.
[[nodiscard]] std::uint32_t bits(float x);

/// How far `got` is from the float64 truth, in units in the last place of the float32 nearest to it (never smaller than the smallest
/// normal's). 0 when both are NaN or the same infinity, infinity when just one is.
[[nodiscard]] double ulps(float got, double want);

/// The same bits in both, element by element; otherwise says which is the first that differs and how. Empty when equal.
[[nodiscard]] std::string first_difference(std::span<const float> a, std::span<const float> b);

/// A float array with sentinels on both sides, so that a write outside it shows. The data starts `shift` floats past a 64-byte boundary
/// and is first filled with `fill` (NaN by default, so that an element that is never written shows too).
class Guarded {
 public:
  explicit Guarded(std::size_t size, std::size_t shift = 0, float fill = std::numeric_limits<float>::quiet_NaN());

  [[nodiscard]] float* data() { return span().data(); }
  [[nodiscard]] std::span<float> span() { return {storage_.data() + offset_, size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] float& operator[](std::size_t i) { return span()[i]; }
  /// No sentinel has changed.
  [[nodiscard]] bool intact() const;

 private:
  std::vector<float> storage_;
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
};

/// Numbers of a fixed seed that every run and machine draws alike (the standard's distributions differ between libraries).
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// In [0, n).
  [[nodiscard]] std::size_t below(std::size_t n) { return engine_() % n; }
  /// In [low, high).
  [[nodiscard]] float uniform(float low, float high);
  /// Bell-shaped: mean 0, deviation `scale`.
  [[nodiscard]] float normal(float scale = 1);
  [[nodiscard]] std::vector<float> normals(std::size_t n, float scale = 1);

 private:
  std::mt19937_64 engine_;
};

// Float64 references. They stand on the C library, whose own error is far below float32's.

/// x Phi(x), also where 1 + erf cancels.
[[nodiscard]] double gelu(double x);

/// One row: (x - mean) / sqrt(variance + eps) * weight + bias; bias may be empty.
[[nodiscard]] std::vector<double> layer_norm(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
                                             double eps);

/// softmax of x times scale.
[[nodiscard]] std::vector<double> softmax(std::span<const float> x, double scale = 1);

/// How far a float32 layer norm may be from `want`, column by column, where its sums run in chains of `chain` additions: their error in
/// the mean, in units of the row's size, grows the normalized value's error, beside a handful of roundings in the row's own steps.
[[nodiscard]] std::vector<double> layer_norm_bounds(std::span<const float> x, std::span<const float> weight, std::span<const double> want,
                                                    double eps, double chain);

/// What the act head sees of a sequence's logits: p1, p1 - p2, H / ln k', k' / 255 with k' = max(k, 2); zeros without any.
[[nodiscard]] std::array<double, 4> act_features(std::span<const float> logits);

/// The sum of a[i] * b[i], and of |a[i] * b[i]|: a float32 chain of n FMAs is wrong by at most about n * kUnit * magnitude.
struct Dot {
  double value = 0;
  double magnitude = 0;
};
[[nodiscard]] Dot dot(const float* a, std::size_t stride_a, const float* b, std::size_t stride_b, std::size_t n);

}  // namespace kime::test
