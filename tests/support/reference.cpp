#include "tests/support/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace kime::test {
namespace {

constexpr std::size_t kGuard = 64;               // Floats on each side: more than any vector is wide.
constexpr std::uint32_t kSentinel = 0xFFDEAD5A;  // A NaN that no arithmetic makes.

}  // namespace

std::uint32_t bits(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

double ulps(float got, double want) {
  if (std::isnan(got) || std::isnan(want)) {
    return std::isnan(got) && std::isnan(want) ? 0 : std::numeric_limits<double>::infinity();
  }
  const float nearest = static_cast<float>(want);
  if (std::isinf(got) || std::isinf(nearest)) {
    return got == nearest ? 0 : std::numeric_limits<double>::infinity();
  }
  const int exponent = std::max(std::ilogb(std::max(std::fabs(want), 0x1p-126)), -126);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

std::string first_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    return fmt::format("{} elements and {}", a.size(), b.size());
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (bits(a[i]) != bits(b[i])) {
      return fmt::format("element {} of {}: {} ({:#010x}) and {} ({:#010x})", i, a.size(), a[i], bits(a[i]), b[i], bits(b[i]));
    }
  }
  return {};
}

Guarded::Guarded(std::size_t size, std::size_t shift, float fill) : storage_(size + shift + 2 * kGuard + 16), size_(size) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) / sizeof(float);
  offset_ = kGuard + (16 - address % 16) % 16 + shift;
  std::fill(storage_.begin(), storage_.end(), std::bit_cast<float>(kSentinel));
  std::fill_n(storage_.begin() + static_cast<std::ptrdiff_t>(offset_), size, fill);
}

bool Guarded::intact() const {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    if ((i < offset_ || i >= offset_ + size_) && bits(storage_[i]) != kSentinel) {
      return false;
    }
  }
  return true;
}

float Random::uniform(float low, float high) {
  const float unit = static_cast<float>(engine_() >> 40) * 0x1p-24F;
  return low + (high - low) * unit;
}

float Random::normal(float scale) {
  float sum = 0;  // The sum of twelve uniforms has variance 1 and a bell's shape, without libm.
  for (int i = 0; i < 12; ++i) {
    sum += uniform(-0.5F, 0.5F);
  }
  return sum * scale;
}

std::vector<float> Random::normals(std::size_t n, float scale) {
  std::vector<float> r(n);
  for (float& x : r) {
    x = normal(scale);
  }
  return r;
}

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}

std::vector<double> layer_norm(std::span<const float> x, std::span<const float> weight, std::span<const float> bias, double eps) {
  double mean = 0;
  for (const float v : x) {
    mean += v;
  }
  mean /= static_cast<double>(x.size());
  double variance = 0;
  for (const float v : x) {
    variance += (v - mean) * (v - mean);
  }
  variance /= static_cast<double>(x.size());
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    out[i] = (x[i] - mean) / std::sqrt(variance + eps) * weight[i] + (bias.empty() ? 0.0 : bias[i]);
  }
  return out;
}

std::vector<double> softmax(std::span<const float> x, double scale) {
  std::vector<double> p(x.size());
  double top = -std::numeric_limits<double>::infinity();
  for (const float v : x) {
    top = std::max(top, v * scale);
  }
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    p[i] = std::exp(x[i] * scale - top);
    sum += p[i];
  }
  for (double& v : p) {
    v /= sum;
  }
  return p;
}

std::vector<double> layer_norm_bounds(std::span<const float> x, std::span<const float> weight, std::span<const double> want, double eps,
                                      double chain) {
  const double n = static_cast<double>(x.size());
  double mean = 0;
  double magnitude = 0;
  double squares = 0;
  for (const float v : x) {
    mean += v / n;
    magnitude += std::fabs(v) / n;
  }
  for (const float v : x) {
    squares += (v - mean) * (v - mean) / n;
  }
  const double deviation = std::sqrt(squares + eps);
  std::vector<double> bounds;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double normal = std::fabs(x[i] - mean) / deviation;
    bounds.push_back(kUnit * ((chain * magnitude / deviation + (chain + 8) * normal) * std::fabs(weight[i]) + std::fabs(want[i])));
  }
  return bounds;
}

std::array<double, 4> act_features(std::span<const float> logits) {
  if (logits.empty()) {
    return {};
  }
  std::vector<double> p = softmax(logits);
  double entropy = 0;
  for (const double v : p) {
    entropy -= v > 0 ? v * std::log(v) : 0;
  }
  std::sort(p.rbegin(), p.rend());
  const double options = static_cast<double>(std::max<std::size_t>(p.size(), 2));
  return {p[0], p[0] - (p.size() > 1 ? p[1] : 0), entropy / std::log(options), options / 255};
}

Dot dot(const float* a, std::size_t stride_a, const float* b, std::size_t stride_b, std::size_t n) {
  Dot r;
  for (std::size_t i = 0; i < n; ++i) {
    const double product = static_cast<double>(a[i * stride_a]) * b[i * stride_b];
    r.value += product;
    r.magnitude += std::fabs(product);
  }
  return r;
}

}  // namespace kime::test
