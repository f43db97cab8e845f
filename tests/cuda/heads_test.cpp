// Small products and act features of the GPU's kernels against float64.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/params_rows.h"
#include "tests/cuda/kernel_case.h"

namespace kime::test {
namespace {

using cuda::Act;
using cuda::RowSet;
using cuda::shim::Buffer;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("small products are the float64 ones within rounding, and a row's bits are its own") {
  for (const std::size_t inputs : std::vector<std::size_t>{1, 4, 7, 28, 128, 129, 388, 772}) {
    for (const std::size_t outputs : std::vector<std::size_t>{1, 2, 4, 5, 9}) {
      Random random(inputs + outputs);
      const std::size_t rows = 10;
      Matrix<float> in(rows, inputs, inputs % 3, outputs % 2);
      in.fill([&] { return random.normal(); });
      Matrix<float> weight(outputs, inputs);
      weight.fill([&] { return random.normal(); });
      Matrix<float> bias(1, outputs);
      bias.fill([&] { return random.normal(); });
      DeviceCounts counts(1, 1, rows);
      for (const Act act : {Act::none, Act::gelu, Act::relu}) {
        const bool with_bias = outputs != 4;
        Matrix<float> out(rows + 8, outputs, outputs % 2);
        cuda::LinearParams params = {counts.data(),
                                     in.data(),
                                     weight.data(),
                                     with_bias ? bias.data() : nullptr,
                                     out.data(),
                                     in.ld(),
                                     out.ld(),
                                     in.width(),
                                     out.width(),
                                     RowSet::markers,
                                     act};
        run("kime_linear_f32", cuda::linear_shape(rows + 8, outputs), params, inputs);
        REQUIRE(out.untouched_but(rows));
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t o = 0; o < outputs; ++o) {
            const Dot d = dot(&in(r, 0), 1, &weight(o, 0), 1, inputs);
            const double sum = d.value + (with_bias ? bias(0, o) : 0);
            const double want = act == Act::gelu ? gelu(sum) : act == Act::relu ? std::max(sum, 0.0) : sum;
            const double chain = static_cast<double>(inputs) / 32 + 10;
            REQUIRE(std::fabs(out(r, o) - want) <=
                    kUnit * (1.13 * (chain * d.magnitude + std::fabs(sum)) + 1.2 * std::max(1.0, std::fabs(sum))));
          }
        }
        // The last row alone, at another address.
        DeviceCounts one(1, 1, 1);
        Matrix<float> alone(1, inputs, 0, 1 - outputs % 2);
        std::copy_n(&in(rows - 1, 0), inputs, alone.data());
        Matrix<float> alone_out(1, outputs);
        params.counts = one.data();
        params.in = alone.data();
        params.out = alone_out.data();
        run("kime_linear_f32", cuda::linear_shape(1, outputs), params, 3);
        REQUIRE(alone_out.same_row(0, out, rows - 1));
      }
    }
  }
}

// Sequences with these logits each; every third has no tokens. Rows are width + 4.
std::vector<std::vector<float>> features(const std::vector<std::vector<float>>& logits, std::size_t width, std::uint64_t seed) {
  std::vector<std::uint32_t> cu{0};
  std::vector<std::uint32_t> mcu{0};
  std::vector<float> all;
  for (const auto& of_seq : logits) {
    cu.push_back(cu.back() + (cu.size() % 3 == 0 ? 0 : 5));
    all.insert(all.end(), of_seq.begin(), of_seq.end());
    mcu.push_back(static_cast<std::uint32_t>(all.size()));
  }
  const std::size_t seqs = logits.size();
  Buffer<std::uint32_t> device_cu(cu);
  Buffer<std::uint32_t> device_mcu(mcu);
  Buffer<float> device_logits(all);
  Random random(seed);
  Matrix<float> hidden(seqs, width, width % 2);
  hidden.fill([&] { return random.normal(); });
  DeviceCounts counts(cu.back(), seqs, all.size());
  Matrix<float> out(seqs + 9, width + 4, width % 3);
  const cuda::ActFeaturesParams params = {counts.data(), device_cu.data(), device_mcu.data(), hidden.data(), device_logits.data(),
                                          out.data(),    hidden.ld(),      out.ld(),          hidden.width()};
  run("kime_act_features", cuda::row_shape(seqs + 9), params, seed);
  REQUIRE(out.untouched_but(seqs));
  std::vector<std::vector<float>> rows;
  for (std::size_t s = 0; s < seqs; ++s) {
    for (std::size_t i = 0; i < width; ++i) {
      REQUIRE(out(s, i) == (cu[s] == cu[s + 1] ? 0.0F : hidden(s, i)));
    }
    const std::vector<float> row = out.row(s);
    rows.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(width), row.end());
  }
  return rows;
}

TEST_CASE("act features are the float64 ones within rounding") {
  for (const float scale : {0.01F, 1.0F, 10.0F, 200.0F}) {
    std::vector<std::vector<float>> logits;
    Random random(5);
    for (std::size_t k = 0; k <= 70; ++k) {
      logits.push_back(random.normals(k, scale));
    }
    for (const std::size_t k : std::vector<std::size_t>{127, 128, 129, 1000}) {
      logits.push_back(random.normals(k, scale));
    }
    for (const std::size_t width : std::vector<std::size_t>{1, 30, 768}) {
      const auto got = features(logits, width, width);
      for (std::size_t s = 0; s < logits.size(); ++s) {
        const std::array<double, 4> want = act_features(logits[s]);
        const double allowed = kUnit * (static_cast<double>(logits[s].size()) / 32 + 13);
        for (std::size_t i = 0; i < 4; ++i) {
          INFO("feature " << i << " of " << logits[s].size() << " options, scale " << scale << ": " << got[s][i] << " for " << want[i]);
          REQUIRE(std::fabs(got[s][i] - want[i]) <= allowed);
        }
      }
    }
  }
}

TEST_CASE("act features of one option, of equal ones, of none, and of no numbers") {
  using Row = std::vector<float>;
  const auto got = features({{}, {-7.5F}, {3, 3}, {0, 1000}, {0, -kInfinity}, {1, 5, 5}, {1, kInfinity}, {std::nanf(""), 1, 2}}, 3, 1);
  CHECK(got[0] == Row{0, 0, 0, 0});
  CHECK(got[1] == Row{1, 1, 0, 2.0F / 255});
  CHECK(got[2] == Row{0.5F, 0, 1, 2.0F / 255});
  CHECK(got[3] == Row{1, 1, 0, 2.0F / 255});
  CHECK(got[4] == Row{1, 1, 0, 2.0F / 255});
  CHECK(got[5][1] == 0);
  CHECK((std::isnan(got[6][0]) && std::isnan(got[6][1]) && std::isnan(got[6][2])));
  CHECK((std::isnan(got[7][0]) && std::isnan(got[7][1]) && std::isnan(got[7][2])));
}

TEST_CASE("the two largest are found wherever they stand") {
  std::vector<std::vector<float>> logits;
  for (std::size_t first = 0; first < 67; ++first) {
    for (const std::size_t distance : std::vector<std::size_t>{1, 2, 16, 32, 33, 60}) {
      logits.emplace_back(67, -50.0F);
      logits.back()[first] = 2;
      logits.back()[(first + distance) % 67] = 1;
    }
  }
  const auto got = features(logits, 1, 2);
  const std::array<double, 4> want = act_features(logits[0]);
  for (const auto& row : got) {
    REQUIRE(std::fabs(row[1] - want[1]) < 1e-6);
  }
}

}  // namespace
}  // namespace kime::test
