// Matrix products on the GPU's kernels against float64: odd shapes, every epilogue, rows past the real end; the same bits from both tiles
// and for a row wherever it stands.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/params_gemm.h"
#include "tests/cuda/kernel_case.h"

namespace kime::test {
namespace {

using cuda::GemmEpilogue;
using cuda::GemmParams;
using cuda::GemmTile;
using cuda::RowSet;

constexpr GemmTile kTiles[] = {GemmTile::small, GemmTile::large};
constexpr GemmEpilogue kEpilogues[] = {GemmEpilogue::linear, GemmEpilogue::relu, GemmEpilogue::gelu,
                                       GemmEpilogue::geglu,  GemmEpilogue::wide, GemmEpilogue::add};

struct Size {
  std::size_t m;
  std::size_t width;
  std::size_t k;
};

template <class T>
constexpr bool kFull = std::is_same_v<T, float>;

// A product of random matrices; a ends where its last row does.
template <class T>
struct Product {
  Size size;
  GemmEpilogue epilogue;
  Random random;
  Matrix<T> a;
  Matrix<T> w;       // as the checkpoint has it
  Matrix<T> packed;  // as the kernel reads it
  Matrix<float> bias;
  std::vector<float> before;  // what an accumulating product finds

  Product(Size s, GemmEpilogue e)
      : size(s),
        epilogue(e),
        random(s.m * 10007 + s.width * 101 + s.k),
        a(s.m, s.k, 8),
        w(rows_of_w(), s.k),
        packed(e == GemmEpilogue::geglu ? cuda::geglu_rows(s.width) : s.width, s.k),
        bias(1, s.width) {
    const auto next = [&] { return random.normal(); };
    a.fill(next);
    w.fill(next);
    bias.fill(next);
    before = random.normals(s.m * s.width);
    const std::vector<T> rows = e == GemmEpilogue::geglu ? cuda::pack_geglu(w.data(), s.width, s.k) : copy_of(w);
    std::copy(rows.begin(), rows.end(), packed.data());
  }

  [[nodiscard]] std::size_t rows_of_w() const { return epilogue == GemmEpilogue::geglu ? 2 * size.width : size.width; }
  [[nodiscard]] static std::vector<T> copy_of(Matrix<T>& matrix) {
    return std::vector<T>(matrix.data(), matrix.data() + matrix.rows() * matrix.width());
  }

  // Into c, whose type is T or float as the epilogue says, for a capacity of `capacity` rows.
  template <class C>
  void run_into(Matrix<C>& c, GemmTile tile, bool with_bias, std::size_t capacity, std::uint64_t seed) {
    DeviceCounts counts(size.m, 1, 1);
    if (epilogue == GemmEpilogue::add) {
      for (std::size_t i = 0; i < before.size(); ++i) {
        c(i / size.width, i % size.width) = cuda::from_float(before[i], cuda::Type<C>());
      }
    }
    const auto n = static_cast<std::uint32_t>(packed.rows());
    const GemmParams params{counts.data(), a.data(),  packed.data(), with_bias ? bias.data() : nullptr, c.data(), a.ld(), c.ld(), n,
                            a.width(),     c.width(), RowSet::tokens};
    run(cuda::gemm_name(Rounding<T>::name, tile, epilogue), cuda::gemm_shape(tile, kFull<T>, capacity, n), params, seed);
  }

  // The chain before bias and activation of output `column` (of w's row `row`) of row i.
  [[nodiscard]] Dot sum(std::size_t i, std::size_t row) {
    Dot d;
    for (std::size_t kk = 0; kk < size.k; ++kk) {
      const double x = static_cast<double>(a.at(i, kk)) * static_cast<double>(w.at(row, kk));
      d.value += x;
      d.magnitude += std::fabs(x);
    }
    return d;
  }

  struct Wanted {
    double value;
    double allowed;
  };
  [[nodiscard]] Wanted wanted(std::size_t i, std::size_t column, bool with_bias) {
    const auto chain = static_cast<double>(size.k + 2);
    Dot d = sum(i, column);
    if (epilogue == GemmEpilogue::geglu) {
      const Dot g = sum(i, size.width + column);
      const double gate = gelu(d.value);
      const double gate_error = 1.2 * kUnit * (chain * d.magnitude + std::max(1.0, std::fabs(d.value)));
      return {gate * g.value,
              gate_error * (std::fabs(g.value) + 1) + kUnit * (chain * g.magnitude * std::fabs(gate) + std::fabs(gate * g.value))};
    }
    if (with_bias) {
      d.value += static_cast<double>(bias.at(0, column));
      d.magnitude += std::fabs(static_cast<double>(bias.at(0, column)));
    }
    const double error = kUnit * chain * d.magnitude;
    switch (epilogue) {
      case GemmEpilogue::gelu:
        return {gelu(d.value), 1.2 * error + 1.2 * kUnit * std::max(1.0, std::fabs(d.value))};
      case GemmEpilogue::relu:
        return {std::max(d.value, 0.0), error};
      case GemmEpilogue::add: {
        const double c = static_cast<double>(before[i * size.width + column]);
        return {c + d.value, error + kUnit * std::fabs(c + d.value)};
      }
      default:
        return {d.value, error};
    }
  }
};

// Calls test(c) with an empty output of the type that the epilogue writes: `rows` rows, `gap` elements between.
template <class T, class F>
void with_output(GemmEpilogue epilogue, std::size_t rows, std::size_t width, std::size_t gap, F test) {
  if (epilogue == GemmEpilogue::wide || epilogue == GemmEpilogue::add) {
    Matrix<float> c(rows, width, gap);
    test(c);
  } else {
    Matrix<T> c(rows, width, gap);
    test(c);
  }
}

template <class T>
bool exists(GemmEpilogue epilogue) {
  return !(kFull<T> && epilogue == GemmEpilogue::wide);
}

template <class T>
void check(const Size& size, GemmEpilogue epilogue, GemmTile tile, std::uint64_t seed) {
  if (!exists<T>(epilogue)) {
    return;
  }
  const bool with_bias = epilogue != GemmEpilogue::geglu && (size.m + size.k / 8) % 2 == 0;
  Product<T> product(size, epilogue);
  // Sometimes rows of the output are whole words, sometimes not.
  with_output<T>(epilogue, size.m + 70, size.width, size.m % 3 == 0 ? 3 : (8 - size.width % 8) % 8, [&](auto& c) {
    using C = std::decay_t<decltype(c(0, 0))>;
    CAPTURE(Rounding<T>::name, size.m, size.width, size.k, static_cast<int>(epilogue), static_cast<int>(tile), seed);
    product.run_into(c, tile, with_bias, size.m + 70, seed);
    for (std::size_t i = 0; i < size.m; ++i) {
      for (std::size_t j = 0; j < size.width; ++j) {
        const auto want = product.wanted(i, j, with_bias);
        if (!close<C>(c.at(i, j), want.value, want.allowed)) {
          FAIL("row " << i << " column " << j << ": " << c.at(i, j) << " for " << want.value);
        }
      }
    }
    CHECK(c.untouched_but(size.m));
  });
}

}  // namespace

TEST_CASE("gemm: float64 on odd shapes, every epilogue and tile") {
  constexpr Size kSizes[] = {{1, 1, 8},     {15, 2, 24},  {16, 17, 32}, {17, 63, 40},  {63, 64, 72},
                             {64, 65, 104}, {65, 9, 136}, {129, 8, 16}, {2, 129, 264}, {130, 131, 56}};
  each_type([&](auto type) {
    std::uint64_t seed = 1;
    for (const Size& size : kSizes) {
      for (const GemmEpilogue epilogue : kEpilogues) {
        for (const GemmTile tile : kTiles) {
          check<decltype(type)>(size, epilogue, tile, ++seed);
        }
      }
    }
  });
}

TEST_CASE("gemm: float32 rows of four elements") {
  for (const GemmTile tile : kTiles) {
    check<float>({5, 7, 4}, GemmEpilogue::gelu, tile, 1);
    check<float>({3, 12, 772}, GemmEpilogue::linear, tile, 2);
  }
}

TEST_CASE("gemm: several orders of the warps") {
  each_type([](auto type) {
    for (const std::uint64_t seed : {11U, 12U, 13U, 14U, 15U, 16U}) {
      for (const GemmTile tile : kTiles) {
        check<decltype(type)>({70, 72, 200}, GemmEpilogue::linear, tile, seed);
      }
    }
  });
}

TEST_CASE("gemm: the same bits from both tiles, for every number of rows and every place") {
  each_type([](auto type) {
    using T = decltype(type);
    for (const GemmEpilogue epilogue : kEpilogues) {
      if (!exists<T>(epilogue)) {
        continue;
      }
      const Size size{140, 72, 88};
      Product<T> whole(size, epilogue);
      with_output<T>(epilogue, size.m, size.width, 0, [&](auto& want) {
        whole.run_into(want, GemmTile::large, false, size.m, 1);
        for (const std::size_t first : {std::size_t{0}, std::size_t{1}, std::size_t{61}, std::size_t{127}}) {
          for (const GemmTile tile : kTiles) {
            const std::size_t m = first == 61 ? 1 : size.m - first;
            Product<T> part({m, size.width, size.k}, epilogue);
            std::copy_n(whole.packed.data(), whole.packed.rows() * size.k, part.packed.data());
            for (std::size_t i = 0; i < m; ++i) {
              std::copy_n(&whole.a(first + i, 0), size.k, &part.a(i, 0));
            }
            part.before.assign(whole.before.begin() + static_cast<std::ptrdiff_t>(first * size.width),
                               whole.before.begin() + static_cast<std::ptrdiff_t>((first + m) * size.width));
            with_output<T>(epilogue, m, size.width, 0, [&](auto& got) {
              part.run_into(got, tile, false, m, first + 5);
              if constexpr (std::is_same_v<decltype(got), decltype(want)>) {
                for (std::size_t i = 0; i < m; ++i) {
                  CAPTURE(Rounding<T>::name, static_cast<int>(epilogue), static_cast<int>(tile), first, i);
                  REQUIRE(got.same_row(i, want, first + i));
                }
              }
            });
          }
        }
      });
    }
  });
}

TEST_CASE("gemm: a NaN stays in its row, and through a ReLU") {
  each_type([](auto type) {
    using T = decltype(type);
    Product<T> product({20, 16, 16}, GemmEpilogue::relu);
    product.a(7, 3) = cuda::from_float(NAN, cuda::Type<T>());
    Matrix<T> c(20, 16);
    product.run_into(c, GemmTile::small, false, 20, 3);
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t j = 0; j < 16; ++j) {
        CHECK(std::isnan(c.at(i, j)) == (i == 7));
      }
    }
  });
}

TEST_CASE("gemm: which rows are real") {
  const auto written = [](RowSet rows) {
    Product<float> product({30, 8, 8}, GemmEpilogue::linear);
    DeviceCounts counts(30, 5, 9);
    Matrix<float> c(40, 8);
    const GemmParams params{counts.data(), product.a.data(), product.packed.data(), nullptr, c.data(), product.a.ld(), c.ld(), 8, 8, 8,
                            rows};
    run(cuda::gemm_name("f32", GemmTile::small, GemmEpilogue::linear), cuda::gemm_shape(GemmTile::small, true, 40, 8), params, 1);
    std::size_t count = 0;
    while (count < 40 && !std::isnan(c.at(count, 0))) {
      ++count;
    }
    CHECK(c.untouched_but(count));
    return count;
  };
  CHECK(written(RowSet::tokens) == 30);
  CHECK(written(RowSet::seqs) == 5);
  CHECK(written(RowSet::markers) == 9);
  CHECK(written(RowSet::picks) == 14);
}

TEST_CASE("gemm: a GEGLU's packed rows") {
  CHECK(cuda::geglu_rows(1) == 16);
  CHECK(cuda::geglu_rows(8) == 16);
  CHECK(cuda::geglu_rows(9) == 32);
  CHECK(cuda::geglu_rows(1152) == 2304);
  const std::size_t width = 11;
  std::vector<int> weight;
  for (int row = 0; row < 22; ++row) {
    weight.insert(weight.end(), {row * 2 + 1, row * 2 + 2});
  }
  const std::vector<int> packed = cuda::pack_geglu(weight.data(), width, 2);
  REQUIRE(packed.size() == std::size_t{32} * 2);
  for (std::size_t output = 0; output < 16; ++output) {
    const std::size_t at = output / 8 * 16 + output % 8;  // a's row; g's is 8 further on
    for (std::size_t column = 0; column < 2; ++column) {
      CHECK(packed[at * 2 + column] == (output < width ? weight[output * 2 + column] : 0));
      CHECK(packed[(at + 8) * 2 + column] == (output < width ? weight[(width + output) * 2 + column] : 0));
    }
  }
}

TEST_CASE("gemm: the large tile where it fills the device") {
  CHECK(cuda::gemm_tile(16384, 768, 132) == GemmTile::large);
  CHECK(cuda::gemm_tile(128, 2304, 132) == GemmTile::small);
  CHECK(cuda::gemm_shape(GemmTile::large, false, 16384, 2304).grid_x == 18);
  CHECK(cuda::gemm_shape(GemmTile::large, false, 16384, 2304).grid_y == 128);
}

}  // namespace kime::test
