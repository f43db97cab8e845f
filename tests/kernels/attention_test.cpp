// Attention on every target: float64, the same bits everywhere and for a query alone or in any company, NaN wherever nothing may look.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/aligned.h"
#include "tests/kernels/each_target.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

using kernels::Attention;
using kernels::Table;
using Sizes = std::initializer_list<std::size_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kFull = SIZE_MAX;

// A head of a random sequence. Around its rows stand NaN, as neighbours in a batch might.
class Head {
 public:
  Head(std::size_t length, std::size_t width, std::size_t reach, bool rope, std::uint64_t seed, float size = 1)
      : length_(length),
        width_(width),
        reach_(reach),
        rope_(rope),
        stride_(width + 5),
        q_((length + 2) * stride_, kNaN),
        k_(q_),
        v_(q_),
        scratch_(kernels::attention_scratch(length, width), kNaN) {
    Random random(seed);
    for (std::size_t i = 0; i < length; ++i) {
      for (std::size_t c = 0; c < width; ++c) {
        q_[at(i) + c] = random.normal(size);
        k_[at(i) + c] = random.normal(size);
        v_[at(i) + c] = random.normal();
      }
    }
    for (std::size_t i = 0; i < length * width / 2; ++i) {
      const std::size_t turn = i % (width / 2);
      const double angle =
          static_cast<double>(i / (width / 2)) * std::pow(10000.0, -2.0 * static_cast<double>(turn) / static_cast<double>(width));
      cosine_.push_back(static_cast<float>(std::cos(angle)));
      sine_.push_back(static_cast<float>(std::sin(angle)));
    }
  }

  [[nodiscard]] std::size_t length() const { return length_; }
  [[nodiscard]] std::size_t out_stride() const { return width_ + 3; }
  [[nodiscard]] float* key(std::size_t i) { return k_.data() + at(i); }
  [[nodiscard]] float* value(std::size_t i) { return v_.data() + at(i); }
  [[nodiscard]] bool sees(std::size_t i, std::size_t j) const { return (i > j ? i - j : j - i) <= reach_; }

  // Row i of the output at i * out_stride(); NaN where nothing was written.
  [[nodiscard]] Guarded output() const { return Guarded((length_ - 1) * out_stride() + width_, 1); }

  [[nodiscard]] Attention arguments(Guarded& out) {
    Attention a;
    a.q = q_.data() + at(0);
    a.k = k_.data() + at(0);
    a.v = v_.data() + at(0);
    a.ldq = a.ldk = a.ldv = stride_;
    a.out = out.data();
    a.ldo = out_stride();
    a.keys = a.queries = length_;
    a.head_width = width_;
    a.reach = reach_;
    a.scale = scale();
    a.cosine = rope_ ? cosine_.data() : nullptr;
    a.sine = rope_ ? sine_.data() : nullptr;
    a.scratch = scratch_.data();
    return a;
  }
  void run(const Table& table, Guarded& out, std::size_t query0, std::size_t query1) { table.attention(arguments(out), query0, query1); }
  [[nodiscard]] Guarded run(const Table& table) {
    Guarded out = output();
    run(table, out, 0, length_);
    return out;
  }

  // |out - float64| of query i by what it may be, at most; 1 is good.
  [[nodiscard]] double worst_error(const float* out, std::size_t i) const {
    const Roped q = roped(q_, i);
    std::vector<double> scores;
    std::vector<std::size_t> seen;
    double magnitude = 0;
    for (std::size_t j = 0; j < length_; ++j) {
      if (sees(i, j)) {
        const Roped k = roped(k_, j);
        double score = 0;
        double size = 0;
        for (std::size_t c = 0; c < width_; ++c) {
          score += q.value[c] * k.value[c];
          size += q.size[c] * k.size[c];
        }
        scores.push_back(score * static_cast<double>(scale()));
        magnitude = std::max(magnitude, size * static_cast<double>(scale()));
        seen.push_back(j);
      }
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& s : scores) {
      s = std::exp(s - max);
      sum += s;
    }
    // A score errs by its chain and the roundings of rope and scale, a weight by twice that and exp's own; then the chains of the sum
    // (16 lanes) and of the values.
    const double n = static_cast<double>(seen.size());
    const double relative = kUnit * (2 * (static_cast<double>(width_) + 12) * magnitude + 1.1 * n + 40);
    double worst = 0;
    for (std::size_t c = 0; c < width_; ++c) {
      double want = 0;
      double size = 0;
      for (std::size_t s = 0; s < seen.size(); ++s) {
        const double x = scores[s] / sum * static_cast<double>(v_[at(seen[s]) + c]);
        want += x;
        size += std::fabs(x);
      }
      worst = std::max(worst, std::fabs(out[c] - want) / (relative * size + 1e-30));
    }
    return worst;
  }

 private:
  struct Roped {
    std::vector<double> value;
    std::vector<double> size;
  };

  [[nodiscard]] std::size_t at(std::size_t i) const { return (i + 1) * stride_; }
  [[nodiscard]] float scale() const { return 1 / std::sqrt(static_cast<float>(width_)); }
  [[nodiscard]] Roped roped(const std::vector<float>& x, std::size_t i) const {
    Roped r{std::vector<double>(width_), std::vector<double>(width_)};
    const std::size_t half = width_ / 2;
    for (std::size_t c = 0; c < half; ++c) {
      const double lo = x[at(i) + c];
      const double hi = x[at(i) + half + c];
      const double cosine = rope_ ? cosine_[i * half + c] : 1;
      const double sine = rope_ ? sine_[i * half + c] : 0;
      r.value[c] = lo * cosine - hi * sine;
      r.value[half + c] = hi * cosine + lo * sine;
      r.size[c] = std::fabs(lo * cosine) + std::fabs(hi * sine);
      r.size[half + c] = std::fabs(hi * cosine) + std::fabs(lo * sine);
    }
    return r;
  }

  std::size_t length_;
  std::size_t width_;
  std::size_t reach_;
  bool rope_;
  std::size_t stride_;
  std::vector<float> q_;
  std::vector<float> k_;
  std::vector<float> v_;
  std::vector<float> cosine_;
  std::vector<float> sine_;
  Aligned scratch_;
};

// All queries on every target (the slow one only if `slow_too`): float64 for every `step`-th, equal bits, nothing written between rows.
void check(std::size_t length, std::size_t width, std::size_t reach, bool rope, bool slow_too, float size = 1, std::size_t step = 1) {
  CAPTURE(length, width, reach, rope, size);
  Head head(length, width, reach, rope, length * 1000 + width, size);
  std::optional<Guarded> first;
  each_target([&](const Table& table) {
    if (is_slow(table) && !slow_too) {
      return;
    }
    Guarded out = head.run(table);
    CHECK(out.intact());
    if (first) {
      CHECK(first_difference(out.span(), first->span()) == "");
      return;
    }
    double worst = 0;
    for (std::size_t i = 0; i < length; i += step) {
      worst = std::max(worst, head.worst_error(out.data() + i * head.out_stride(), i));
    }
    CHECK(worst <= 1);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i % head.out_stride() >= width && !std::isnan(out[i])) {
        FAIL("column " << i % head.out_stride() << " of row " << i / head.out_stride() << " was written");
      }
    }
    first = std::move(out);
  });
}

}  // namespace

TEST_CASE("attention: lengths around tiles and blocks, every kind of window", "[attention]") {
  for (const std::size_t length : Sizes{1, 2, 5, 6, 7, 15, 16, 17, 47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191, 192, 193}) {
    for (const std::size_t reach : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{32}, std::size_t{64}, kFull}) {
      check(length, 64, reach, true, length < 20 || (length == 129 && reach > 5), 1, 1 + length / 40);
    }
  }
}

TEST_CASE("attention: head widths", "[attention]") {
  for (const std::size_t width : Sizes{8, 16, 24, 32, 40, 72, 96, 120, 128}) {
    for (const std::size_t length : Sizes{1, 7, 65, 130}) {
      check(length, width, kFull, false, length == 7);
      check(length, width, 20, true, length == 65);
    }
  }
}

TEST_CASE("attention: scores far apart move the maximum from block to block", "[attention]") {
  check(200, 64, kFull, true, false, 8);
  check(200, 32, 70, false, true, 30);
}

TEST_CASE("attention: long sequences", "[attention]") {
  check(2048, 64, 64, true, false, 1, 37);
  Head head(8192, 64, kFull, true, 1);
  std::optional<Guarded> first;
  each_target([&](const Table& table) {
    Guarded out = head.output();
    const std::size_t count = is_slow(table) ? 1 : 100;
    for (const std::size_t query : {std::size_t{0}, std::size_t{4090}, head.length() - count}) {
      head.run(table, out, query, query + count);
      CHECK(head.worst_error(out.data() + query * head.out_stride(), query) <= 1);
    }
    CHECK(out.intact());
    if (first) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (!std::isnan(out[i]) && bits(out[i]) != bits((*first)[i])) {
          FAIL("row " << i / head.out_stride());
        }
      }
    }
    first = first ? first : out;
  });
}

TEST_CASE("attention: a query alone or in any company has the same bits", "[attention]") {
  for (const std::size_t reach : {std::size_t{5}, std::size_t{64}, kFull}) {
    Head head(203, 24, reach, true, 3);
    each_target([&](const Table& table) {
      CAPTURE(reach);
      Guarded whole = head.run(table);
      for (const std::size_t rows : Sizes{1, 5, 6, 7, 47, 48, 49, 100}) {
        if (is_slow(table) && rows != 7) {
          continue;
        }
        Guarded out = head.output();
        for (std::size_t i = 0; i < head.length(); i += rows) {
          head.run(table, out, i, std::min(head.length(), i + rows));
        }
        CAPTURE(rows);
        CHECK(first_difference(out.span(), whole.span()) == "");
      }
    });
  }
}

TEST_CASE("attention: queries picked by row and position", "[attention]") {
  for (const std::size_t reach : {std::size_t{0}, std::size_t{30}, kFull}) {
    Head head(150, 64, reach, true, 4);
    Random random(5);
    // In no order, some twice: as markers come.
    std::vector<std::uint32_t> picked = {149, 0, 64, 63, 3, 3, 128};
    while (picked.size() < 60) {
      picked.push_back(static_cast<std::uint32_t>(random.below(150)));
    }
    each_target([&](const Table& table) {
      Guarded whole = head.run(table);
      Guarded out = head.output();
      Attention a = head.arguments(out);
      a.rows = a.positions = picked.data();
      a.queries = picked.size();
      table.attention(a, 0, 11);
      table.attention(a, 11, picked.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t row = i / head.out_stride();
        const bool asked = std::find(picked.begin(), picked.end(), row) != picked.end();
        if (bits(out[i]) != bits(asked ? whole[i] : kNaN)) {
          FAIL("row " << row);
        }
      }
      CHECK(out.intact());
    });
  }
}

TEST_CASE("attention: a query's row need not be its position", "[attention]") {
  Head head(100, 32, 10, true, 6);
  each_target([&](const Table& table) {
    Guarded whole = head.run(table);
    Guarded packed(4 * head.out_stride());
    const std::vector<std::uint32_t> positions = {99, 17, 50};
    const std::vector<std::uint32_t> rows = {1, 2, 0};
    Attention a = head.arguments(packed);
    std::vector<float> gathered(std::size_t{3} * 32);
    for (std::size_t j = 0; j < 3; ++j) {
      std::copy_n(a.q + positions[j] * a.ldq, 32, gathered.begin() + static_cast<std::ptrdiff_t>(rows[j] * 32));
    }
    a.q = gathered.data();
    a.ldq = 32;
    a.rows = rows.data();
    a.positions = positions.data();
    a.queries = 3;
    table.attention(a, 0, 3);
    for (std::size_t j = 0; j < 3; ++j) {
      CHECK(first_difference(packed.span().subspan(rows[j] * head.out_stride(), 32),
                             whole.span().subspan(positions[j] * head.out_stride(), 32)) == "");
    }
  });
}

TEST_CASE("attention: what a query does not see does not matter, NaN and infinity too", "[attention]") {
  for (const std::size_t bad : Sizes{0, 63, 64, 70, 127, 149}) {
    for (const float poison : {kNaN, std::numeric_limits<float>::infinity()}) {
      Head clean(150, 40, 20, true, 7);
      Head head(150, 40, 20, true, 7);
      std::fill_n(head.key(bad), 40, poison);
      std::fill_n(head.value(bad), 40, poison);
      each_target([&](const Table& table) {
        CAPTURE(bad, poison);
        Guarded want = clean.run(table);
        Guarded out = head.run(table);
        for (std::size_t i = 0; i < 150; ++i) {
          for (std::size_t c = 0; c < 40; ++c) {
            const std::size_t at = i * head.out_stride() + c;
            const bool good = head.sees(i, bad) ? !std::isfinite(out[at]) : bits(out[at]) == bits(want[at]);
            if (!good) {
              FAIL("row " << i << " column " << c << ": " << out[at]);
            }
          }
        }
      });
    }
  }
}

}  // namespace kime::test
