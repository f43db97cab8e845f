// Matrix products on every target: the very bits of the one FMA chain that the contract names, and float64 within what such a chain can
// err; in any split of rows and panels, with strides, NaN between rows and sentinels around the output.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/aligned.h"
#include "tests/kernels/each_target.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

using kernels::Activation;
using kernels::Gemm;
using kernels::Table;
using Sizes = std::initializer_list<std::size_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kGap = -77;  // Between the rows of c: what is never written.

struct Shape {
  std::size_t m;
  std::size_t n;  // Columns of c, for geglu too.
  std::size_t k;
  Activation activation = Activation::none;
  bool bias = false;
  bool accumulate = false;
};

// Random operands of a shape. Rows of a are NaN-separated; weights are [feature][k], for geglu the n of `a` and then the n of `g`.
class Problem {
 public:
  Problem(const Shape& shape, std::uint64_t seed)
      : s_(shape), a_(s_.m * lda(), kNaN), packed_(kernels::packed_floats(packed_columns(), s_.k)) {
    Random random(seed);
    for (std::size_t r = 0; r < s_.m; ++r) {
      for (std::size_t i = 0; i < s_.k; ++i) {
        a_[r * lda() + i] = random.normal();
      }
    }
    weights_ = random.normals((geglu() ? 2 : 1) * s_.n * s_.k, 1 / std::sqrt(static_cast<float>(s_.k)));
    bias_ = random.normals(s_.bias ? s_.n : 0);
    residual_ = random.normals(s_.m * s_.n);
    for (std::size_t c = 0; c < packed_columns(); ++c) {
      const std::size_t panel = c / kernels::kPanel * kernels::kPanel;
      const std::size_t width = std::min(kernels::kPanel, (packed_columns() - panel + 15) / 16 * 16);
      const float* feature = feature_of(c);
      for (std::size_t i = 0; i < s_.k && feature != nullptr; ++i) {
        packed_.data()[panel * s_.k + i * width + c % kernels::kPanel] = feature[i];
      }
    }
  }

  [[nodiscard]] const Shape& shape() const { return s_; }
  [[nodiscard]] std::size_t panels() const { return kernels::panels(packed_columns()); }

  // c before the product.
  [[nodiscard]] Guarded output() const {
    Guarded c((s_.m - 1) * ldc() + s_.n, 5, kGap);
    for (std::size_t r = 0; r < s_.m; ++r) {
      for (std::size_t j = 0; j < s_.n; ++j) {
        c[r * ldc() + j] = s_.accumulate ? residual_[r * s_.n + j] : kNaN;
      }
    }
    return c;
  }

  void run(const Table& table, Guarded& c, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
    Gemm g;
    g.a = a_.data();
    g.lda = lda();
    g.b = packed_.data();
    g.n = packed_columns();
    g.k = s_.k;
    g.bias = s_.bias ? bias_.data() : nullptr;
    g.activation = s_.activation;
    g.accumulate = s_.accumulate;
    g.c = c.data();
    g.ldc = ldc();
    g.f = geglu() ? s_.n : 0;
    table.gemm(g, row0, row1, panel0, panel1);
  }
  [[nodiscard]] Guarded run(const Table& table) {
    Guarded c = output();
    run(table, c, 0, s_.m, 0, panels());
    return c;
  }

  // The contract's own sequence, with the target's gelu (which has its own tests).
  [[nodiscard]] Guarded chain(const Table& table) const {
    Guarded c = output();
    for (std::size_t r = 0; r < s_.m; ++r) {
      for (std::size_t j = 0; j < s_.n; ++j) {
        float x = chain(r, j) + (s_.bias ? bias_[j] : 0.0F);
        if (geglu() || s_.activation == Activation::gelu) {
          table.gelu(&x, 1, &x);
        }
        x = geglu() ? x * chain(r, s_.n + j) : s_.activation == Activation::relu ? std::max(x, 0.0F) : x;
        c[r * ldc() + j] = s_.accumulate ? c[r * ldc() + j] + x : x;
      }
    }
    return c;
  }

  // |c - float64| by what it may be, at most; 1 is good.
  [[nodiscard]] double worst_error(Guarded& c) const {
    double worst = 0;
    for (std::size_t r = 0; r < s_.m; ++r) {
      for (std::size_t j = 0; j < s_.n; ++j) {
        const Dot d = product(r, j);
        const double bias = s_.bias ? bias_[j] : 0;
        double want = d.value + bias;
        // A chain errs by k roundings of at most its magnitude; gelu stretches by 1.13 at most and errs by a few roundings itself.
        double allowed = static_cast<double>(s_.k + 2) * kUnit * (d.magnitude + std::fabs(bias));
        if (s_.activation == Activation::relu) {
          want = std::max(want, 0.0);
        } else if (s_.activation == Activation::gelu) {
          want = gelu(want);
          allowed = 1.13 * allowed + 8 * kUnit * (std::fabs(want) + 1e-30);
        } else if (geglu()) {
          const Dot g = product(r, s_.n + j);
          const double a = gelu(want);
          allowed = (1.13 * allowed + 8 * kUnit * std::fabs(a)) * std::fabs(g.value) +
                    1.01 * static_cast<double>(s_.k + 2) * kUnit * g.magnitude * (std::fabs(a) + allowed);
          want = a * g.value;
        }
        if (s_.accumulate) {
          want += static_cast<double>(residual_[r * s_.n + j]);
        }
        allowed += 2 * kUnit * std::fabs(want) + 1e-37;
        worst = std::max(worst, std::fabs(c[r * ldc() + j] - want) / allowed);
      }
    }
    return worst;
  }

 private:
  [[nodiscard]] bool geglu() const { return s_.activation == Activation::geglu; }
  [[nodiscard]] std::size_t lda() const { return s_.k + 3; }
  [[nodiscard]] std::size_t ldc() const { return s_.n + 7; }
  [[nodiscard]] std::size_t packed_columns() const {
    return geglu() ? 2 * kernels::kGegluHalf * ((s_.n + kernels::kGegluHalf - 1) / kernels::kGegluHalf) : s_.n;
  }
  // The feature in packed column c, null in padding.
  [[nodiscard]] const float* feature_of(std::size_t c) const {
    if (!geglu()) {
      return weights_.data() + c * s_.k;
    }
    const std::size_t j = c / kernels::kPanel * kernels::kGegluHalf + c % kernels::kGegluHalf;
    const bool gate = c % kernels::kPanel >= kernels::kGegluHalf;
    return j < s_.n ? weights_.data() + (gate ? s_.n + j : j) * s_.k : nullptr;
  }
  [[nodiscard]] float chain(std::size_t r, std::size_t feature) const {
    float sum = 0;
    for (std::size_t i = 0; i < s_.k; ++i) {
      sum = std::fma(a_[r * lda() + i], weights_[feature * s_.k + i], sum);
    }
    return sum;
  }
  [[nodiscard]] Dot product(std::size_t r, std::size_t feature) const {
    return dot(a_.data() + r * lda(), 1, weights_.data() + feature * s_.k, 1, s_.k);
  }

  Shape s_;
  std::vector<float> a_;
  std::vector<float> weights_;
  Aligned packed_;
  std::vector<float> bias_;
  std::vector<float> residual_;
};

// On the slow target too only if `slow_too`.
void check(const Shape& shape, std::uint64_t seed, bool slow_too = true) {
  CAPTURE(shape.m, shape.n, shape.k, static_cast<int>(shape.activation), shape.bias, shape.accumulate);
  Problem problem(shape, seed);
  Guarded want = problem.chain(kernels::table());
  CHECK(problem.worst_error(want) <= 1);
  each_target([&](const Table& table) {
    if (is_slow(table) && !slow_too) {
      return;
    }
    Guarded c = problem.run(table);
    CHECK(first_difference(c.span(), want.span()) == "");
    CHECK(c.intact());
  });
}

}  // namespace

TEST_CASE("gemm: every height from 1 to 130", "[gemm]") {
  for (std::size_t m = 1; m <= 130; ++m) {
    check({m, 70, 37}, m, m < 14 || m == 130);
  }
}

TEST_CASE("gemm: odd widths and depths", "[gemm]") {
  for (const std::size_t n : Sizes{1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80, 100, 127, 128, 129, 200}) {
    check({13, n, 50}, n);
    check({6, n, 1}, n);
  }
  for (const std::size_t k : Sizes{1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 256, 257, 258, 511, 512, 513}) {
    check({8, 65, k}, k);
    check({20, 33, k}, k);
  }
}

TEST_CASE("gemm: the depths of real models", "[gemm]") {
  check({130, 70, 768}, 1, false);
  check({1, 130, 768}, 2);
  check({31, 97, 4096}, 3, false);
  check({1, 20, 4096}, 3);
  check({7, 768, 768, Activation::none, true, true}, 4, false);
}

TEST_CASE("gemm: more rows than are kept at a time", "[gemm]") {
  for (const std::size_t m : Sizes{257, 258, 259, 263, 517}) {
    check({m, 20, 300, Activation::none, true, true}, m, m == 259);
  }
}

TEST_CASE("gemm: bias, activation, then what c holds", "[gemm]") {
  for (const Activation activation : {Activation::none, Activation::gelu, Activation::relu}) {
    for (const bool bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        check({9, 75, 40, activation, bias, accumulate}, 5);
        check({14, 16, 300, activation, bias, accumulate}, 6);
      }
    }
  }
  for (const std::size_t f : Sizes{1, 15, 16, 17, 31, 32, 33, 48, 64, 65, 100}) {
    check({10, f, 60, Activation::geglu, false, false}, f);
    check({7, f, 260, Activation::geglu, false, true}, f);
  }
}

TEST_CASE("gemm: the same bits in any split, and nothing else is written", "[gemm]") {
  for (const Activation activation : {Activation::none, Activation::geglu}) {
    Problem problem({130, 150, 257, activation, activation == Activation::none, true}, 7);
    each_target([&](const Table& table) {
      Guarded whole = problem.run(table);
      // One row at a time is the few-records path; the others cut tiles and row blocks anywhere.
      for (const std::size_t rows : Sizes{1, 5, 7, 129}) {
        if (is_slow(table) && rows != 5) {
          continue;
        }
        for (std::size_t columns : {std::size_t{1}, problem.panels() - 1}) {
          Guarded c = problem.output();
          for (std::size_t p = 0; p < problem.panels(); p += columns) {
            for (std::size_t r = 0; r < 130; r += rows) {
              problem.run(table, c, r, std::min<std::size_t>(130, r + rows), p, std::min(problem.panels(), p + columns));
            }
          }
          CAPTURE(rows, columns);
          CHECK(first_difference(c.span(), whole.span()) == "");
          CHECK(c.intact());
        }
      }
      // A part leaves the rest as it was.
      Guarded part = problem.output();
      problem.run(table, part, 40, 50, 1, 2);
      Guarded before = problem.output();
      const std::size_t ldc = 157;
      const std::size_t first = activation == Activation::geglu ? 32 : 64;
      for (std::size_t i = 0; i < part.size(); ++i) {
        const bool inside = i / ldc >= 40 && i / ldc < 50 && i % ldc >= first && i % ldc < 2 * first;
        if (bits(part[i]) != bits(inside ? whole[i] : before[i])) {
          FAIL("element " << i % ldc << " of row " << i / ldc);
        }
      }
    });
  }
}

TEST_CASE("gemm: a row that is not a number stays alone", "[gemm]") {
  each_target([&](const Table& table) {
    Aligned b(kernels::packed_floats(20, 30), 0.5F);
    std::vector<float> a(std::size_t{8} * 30, 1.0F);
    a[3 * 30 + 29] = kNaN;
    Guarded c(std::size_t{8} * 20);
    Gemm g;
    g.a = a.data();
    g.lda = 30;
    g.b = b.data();
    g.n = 20;
    g.k = 30;
    g.c = c.data();
    g.ldc = 20;
    table.gemm(g, 0, 8, 0, 1);
    for (std::size_t i = 0; i < c.size(); ++i) {
      const bool good = i / 20 == 3 ? std::isnan(c[i]) : c[i] == 15.0F;
      CHECK(good);
    }
  });
}

}  // namespace kime::test
