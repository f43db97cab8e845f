#include "kime/backend/cuda/blas_probe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kime::cuda {

namespace {

// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(next() % count); }

 private:
  std::uint64_t state_;
};

// A 16-bit format by its fields.
struct Format {
  int mantissa_bits;
  int bias;
  std::uint16_t nan;
  int outlier;  // an exponent: what a float32 sum loses beside it is seen in this format

  [[nodiscard]] std::uint16_t normal(Random& random, int exponent) const {
    const std::uint64_t word = random.next();
    const auto mantissa = static_cast<std::uint32_t>(word & ((1U << mantissa_bits) - 1));
    const auto sign = static_cast<std::uint32_t>(word >> 63);
    return static_cast<std::uint16_t>(sign << 15 | static_cast<std::uint32_t>(exponent + bias) << mantissa_bits | mantissa);
  }
  [[nodiscard]] std::uint16_t subnormal(Random& random) const {
    const std::uint32_t mantissa = 1 + random.below((1U << mantissa_bits) - 1);
    return static_cast<std::uint16_t>(random.below(2) << 15 | mantissa);
  }
  [[nodiscard]] double value(std::uint16_t bits) const {
    const int field = (bits & 0x7FFF) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    if (bits == nan) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    const double magnitude = field == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                        : std::ldexp(mantissa + (1 << mantissa_bits), field - bias - mantissa_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
  [[nodiscard]] double smallest() const { return std::ldexp(1, 1 - bias - mantissa_bits); }
};
constexpr Format kHalf{10, 15, 0x7E01, 15};
constexpr Format kBfloat{7, 127, 0x7FC1, 22};

const Format& format_of(ProductType type) {
  return type == ProductType::f16 ? kHalf : kBfloat;
}

// Of the rows without outliers.
bool is_subnormal(std::size_t row) {
  return row % 8 == 2;
}

constexpr std::uint16_t kSign = 0x8000;

}  // namespace

Probe::Probe(const ProductShape& shape) : shape_(shape) {
  for (const std::size_t first : {std::size_t{0}, std::size_t{shape.k} / 8, std::size_t{shape.k} / 4}) {
    if (first < shape.k - 1 - first && std::ranges::find(paired_, first) == paired_.end()) {
      paired_.push_back(first);
    }
  }
  make_a();
  make_w();
  if (shape.out == ProductOut::added) {
    make_added();
  }
}

void Probe::make_a() {
  const Format& format = format_of(shape_.type);
  Random random(1);
  a_.assign(kRows * shape_.ld_a, format.nan);
  for (std::size_t row = 0; row < kRows; ++row) {
    std::uint16_t* values = a_.data() + row * shape_.ld_a;
    if (is_garbage(row)) {
      continue;
    }
    for (std::size_t i = 0; i < shape_.k; ++i) {
      values[i] = is_subnormal(row) ? format.subnormal(random) : format.normal(random, -static_cast<int>(random.below(5)));
    }
    if (has_outliers(row)) {
      for (const std::size_t first : paired_) {
        values[first] = format.normal(random, format.outlier - (row % 2 == 1 ? 0 : 6));
        values[shape_.k - 1 - first] = values[first] ^ kSign;
      }
    }
  }
}

void Probe::make_w() {
  const Format& format = format_of(shape_.type);
  Random random(2);
  w_.resize(std::size_t{shape_.n} * shape_.k);
  for (std::size_t row = 0; row < shape_.n; ++row) {
    std::uint16_t* values = w_.data() + row * shape_.k;
    for (std::size_t i = 0; i < shape_.k; ++i) {
      values[i] = row % 8 == 3 ? format.subnormal(random) : format.normal(random, -static_cast<int>(random.below(5)));
    }
    for (const std::size_t first : paired_) {
      values[shape_.k - 1 - first] = values[first];
    }
  }
}

// As large as what is added to them.
void Probe::make_added() {
  Random random(3);
  added_.assign(kRows * shape_.ld_c, std::numeric_limits<float>::quiet_NaN());
  const double small = 64 * format_of(shape_.type).smallest();
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < shape_.n; ++i) {
      const double value = static_cast<double>(random.next() >> 11) * 0x1p-51 - 2;  // of [-2, 2)
      added_[row * shape_.ld_c + i] = static_cast<float>(is_subnormal(row) ? value * small : value);
    }
  }
}

bool Probe::is_product(std::size_t row, const std::byte* out) const {
  constexpr std::size_t kColumns = 11;
  const Format& format = format_of(shape_.type);
  const bool narrow = shape_.out == ProductOut::narrow;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const std::size_t column = i * (shape_.n - 1) / (kColumns - 1);
    double sum = narrow ? 0 : static_cast<double>(added_[row * shape_.ld_c + column]);
    double norm = std::abs(sum);
    for (std::size_t j = 0; j < shape_.k; ++j) {
      const double product = format.value(a_[row * shape_.ld_a + j]) * format.value(w_[column * shape_.k + j]);
      sum += product;
      norm += std::abs(product);
    }
    double got = 0;
    double rounding = 0;
    if (narrow) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, out + column * sizeof(bits), sizeof(bits));
      got = format.value(bits);
      rounding = std::abs(sum) * std::ldexp(1, -format.mantissa_bits) + format.smallest();
    } else {
      float value = 0;
      std::memcpy(&value, out + column * sizeof(value), sizeof(value));
      got = static_cast<double>(value);
    }
    // Each step of a sum loses at most 2^-23 of what it has, truncated as tensor cores do; and what is subnormal in float32, where that is
    // flushed.
    const double bound = (shape_.k + 2) * (0x1p-23 * norm + 0x1p-126) + rounding;
    if (!(std::abs(got - sum) <= bound)) {  // also NaN
      return false;
    }
  }
  return true;
}

}  // namespace kime::cuda
