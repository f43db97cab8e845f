// Layer norms on the GPU's kernels against float64: odd widths, strides and addresses, rows past the real end, and the same bits for a row
// wherever it stands.
#include <catch2/catch.hpp>

#include <cmath>
#include <vector>

#include "kernels/cuda/params_rows.h"
#include "tests/cuda/kernel_case.h"

namespace kime::test {
namespace {

using cuda::NormParams;
using cuda::RowSet;

constexpr float kEps = 1e-5F;
constexpr std::size_t kWidths[] = {1, 2, 3, 4, 5, 24, 127, 128, 129, 132, 511, 768, 1000, 1023, 1024, 1025, 1028, 1157, 2050};

// 32 chains run over the row, then 5 additions and 4 more.
template <class T>
void check_row(const std::vector<float>& x, const std::vector<float>& weight, const std::vector<float>& bias,
               const std::vector<float>& got) {
  const std::vector<double> want = layer_norm(x, weight, bias, kEps);
  const auto allowed = layer_norm_bounds(x, weight, want, kEps, static_cast<double>(x.size()) / 32 + 9);
  for (std::size_t i = 0; i < x.size(); ++i) {
    INFO("column " << i << " of " << x.size() << ": " << got[i] << " for " << want[i]);
    REQUIRE(close<T>(got[i], want[i], allowed[i]));
  }
}

struct Case {
  Random random;
  Matrix<float> in;
  Matrix<float> weight;
  Matrix<float> bias;

  Case(std::size_t rows, std::size_t width, std::size_t gap, std::size_t shift, float mean = 0)
      : random(width), in(rows, width, gap, shift), weight(1, width), bias(1, width) {
    in.fill([&] { return mean + random.normal(); });
    weight.fill([&] { return random.normal(); });
    bias.fill([&] { return random.normal(); });
  }

  template <class T>
  [[nodiscard]] NormParams params(DeviceCounts& counts, Matrix<T>& out, bool with_bias) {
    return {counts.data(), in.data(), weight.data(), with_bias ? bias.data() : nullptr, out.data(), in.ld(), out.ld(),
            in.width(),    kEps,      RowSet::tokens};
  }
};

template <class T>
std::string norm_name() {
  return std::string("kime_norm_") + Rounding<T>::name;
}

TEST_CASE("layer norm is the float64 one within rounding") {
  each_type([](auto type) {
    using T = decltype(type);
    for (const std::size_t width : kWidths) {
      for (const bool with_bias : {false, true}) {
        const std::size_t rows = 11;
        Case c(rows, width, width % 5, width % 2, with_bias ? 30.0F : 0.0F);
        DeviceCounts counts(rows, 1, 1);
        for (const std::uint64_t seed : kSeeds) {
          Matrix<T> out(rows + 9, width, width % 3);
          run(norm_name<T>(), cuda::row_shape(rows + 9), c.params(counts, out, with_bias), seed);
          REQUIRE(out.untouched_but(rows));
          for (std::size_t r = 0; r < rows && seed == kSeeds[0]; ++r) {
            check_row<T>(c.in.row(r), c.weight.row(0), with_bias ? c.bias.row(0) : std::vector<float>(), out.row(r));
          }
        }
      }
    }
  });
}

TEST_CASE("layer norm gives a row the same bits alone, elsewhere, at any address, and in place") {
  for (const std::size_t width : kWidths) {
    Case c(19, width, 0, 0);
    DeviceCounts counts(19, 1, 1);
    DeviceCounts one(1, 1, 1);
    Matrix<float> want(19, width);
    run("kime_norm_f32", cuda::row_shape(19), c.params(counts, want, true), 1);
    for (const std::size_t r : std::vector<std::size_t>{0, 7, 8, 18}) {
      Case alone(1, width, 3, 1);
      for (std::size_t i = 0; i < width; ++i) {
        alone.in(0, i) = c.in(r, i);
      }
      NormParams params = alone.params(one, alone.in, true);
      params.weight = c.weight.data();
      params.bias = c.bias.data();
      run("kime_norm_f32", cuda::row_shape(1), params, r);
      REQUIRE(alone.in.same_row(0, want, r));
    }
  }
}

TEST_CASE("a norm's rows are those that are asked for") {
  Case c(40, 8, 0, 0);
  DeviceCounts counts(5, 9, 20);
  const std::pair<RowSet, std::size_t> sets[] = {{RowSet::tokens, 5}, {RowSet::seqs, 9}, {RowSet::markers, 20}, {RowSet::picks, 29}};
  for (const auto& [set, rows] : sets) {
    Matrix<float> out(40, 8);
    NormParams params = c.params(counts, out, true);
    params.rows = set;
    run("kime_norm_f32", cuda::row_shape(40), params, 1);
    REQUIRE(out.untouched_but(rows));
    REQUIRE(!std::isnan(out(rows - 1, 7)));
  }
}

TEST_CASE("layer norm of a constant row is its bias, and of a NaN in a row spoils only that row") {
  Case c(3, 50, 0, 0);
  for (std::size_t i = 0; i < 50; ++i) {
    c.in(0, i) = 0.75F;
  }
  c.in(1, 49) = std::nanf("");
  DeviceCounts counts(3, 1, 1);
  Matrix<float> out(3, 50);
  run("kime_norm_f32", cuda::row_shape(3), c.params(counts, out, true), 1);
  for (std::size_t i = 0; i < 50; ++i) {
    REQUIRE(out(0, i) == c.bias(0, i));
    REQUIRE(std::isnan(out(1, i)));
    REQUIRE(std::isfinite(out(2, i)));
  }
}

TEST_CASE("embedding rows are normalized into the stream and rounded beside it") {
  each_type([](auto table_type) {
    each_type([](auto type) {
      using Table = decltype(table_type);
      using T = decltype(type);
      for (const std::size_t width : std::vector<std::size_t>{3, 24, 768, 1030}) {
        const std::size_t rows = 10;
        Random random(width);
        Matrix<Table> table(7, width);
        table.fill([&] { return random.normal(); });
        std::vector<std::uint32_t> ids(rows);
        for (auto& id : ids) {
          id = static_cast<std::uint32_t>(random.below(7));
        }
        ids[3] = 6;
        cuda::shim::Buffer<std::uint32_t> device_ids(ids);
        Case c(rows, width, 0, 0);
        DeviceCounts counts(rows, 1, 1);
        Matrix<float> stream(rows + 3, width);
        Matrix<T> narrow(rows + 3, width);
        const std::string name = std::string("kime_embed_norm_") + Rounding<Table>::name + "_" + Rounding<T>::name;
        const bool with_bias = width != 24;
        const float* bias = with_bias ? c.bias.data() : nullptr;
        cuda::EmbedNormParams params = {counts.data(), device_ids.data(), table.data(), c.weight.data(), bias, stream.data(),
                                        nullptr,       table.width(),     kEps};
        run(name, cuda::row_shape(rows + 3), params, 1);
        params.narrow = narrow.data();
        run(name, cuda::row_shape(rows + 3), params, 2);
        REQUIRE(stream.untouched_but(rows));
        REQUIRE(narrow.untouched_but(rows));
        for (std::size_t r = 0; r < rows; ++r) {
          check_row<float>(table.row(ids[r]), c.weight.row(0), with_bias ? c.bias.row(0) : std::vector<float>(), stream.row(r));
          for (std::size_t i = 0; i < width; ++i) {
            REQUIRE(narrow.at(r, i) == rounded<T>(stream(r, i)));
          }
        }
      }
    });
  });
}

}  // namespace
}  // namespace kime::test
