// Epilogues of products against float64: every pair of types, activations, sums into a stream, odd widths and addresses.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/params_rows.h"
#include "tests/cuda/kernel_case.h"

namespace kime::test {
namespace {

using cuda::Act;
using cuda::RowSet;

constexpr std::size_t kColumns[] = {1, 3, 4, 31, 128, 130, 511, 512, 513, 516, 1152, 1157};
constexpr std::size_t kRows = 10;
constexpr std::size_t kMoreRows = 14;

// Calls test(In(), Out()) for each pair that there is a kernel of.
template <class F>
void each_pair(F test) {
  each_type([&](auto type) {
    test(type, type);
    if constexpr (!std::is_same_v<decltype(type), float>) {
      test(float(), type);
      test(type, float());
    }
  });
}

template <class In, class Out>
std::string name(const char* what) {
  return std::string("kime_") + what + "_" + Rounding<In>::name + "_" + Rounding<Out>::name;
}

double activation(double x, Act act) {
  if (act == Act::gelu) {
    return gelu(x);
  }
  return act == Act::relu ? std::max(x, 0.0) : x;
}

TEST_CASE("bias, activation and sum are the float64 ones within rounding") {
  each_pair([](auto in_type, auto out_type) {
    using In = decltype(in_type);
    using Out = decltype(out_type);
    for (const std::size_t width : kColumns) {
      Random random(width);
      Matrix<In> in(kRows, width, width % 3, width % 2);
      in.fill([&] { return 3 * random.normal(); });
      Matrix<float> bias(1, width);
      bias.fill([&] { return random.normal(); });
      DeviceCounts counts(1, 4, kRows - 4);
      for (const Act act : {Act::none, Act::gelu, Act::relu}) {
        const bool with_bias = act != Act::gelu || width % 2 == 0;
        for (const bool accumulate : {false, true}) {
          Matrix<Out> out(kMoreRows, width, width % 2);
          Matrix<Out> before(kRows, width);
          before.fill([&] { return random.normal(); });
          for (std::size_t r = 0; r < kRows; ++r) {
            for (std::size_t i = 0; i < width; ++i) {
              out(r, i) = before(r, i);
            }
          }
          const cuda::BiasActParams params = {counts.data(),       in.data(),     with_bias ? bias.data() : nullptr,
                                              out.data(),          in.ld(),       out.ld(),
                                              in.width(),          RowSet::picks, act,
                                              accumulate ? 1U : 0U};
          const std::string kernel = name<In, Out>("bias_act");
          run(kernel, cuda::epilogue_shape(kMoreRows, width), params, width);
          REQUIRE(out.untouched_but(kRows));
          for (std::size_t r = 0; r < kRows; ++r) {
            for (std::size_t i = 0; i < width; ++i) {
              const double sum = static_cast<double>(in.at(r, i)) + (with_bias ? bias(0, i) : 0);
              const double y = activation(sum, act);
              const double want = (accumulate ? before.at(r, i) : 0) + y;
              // The bias's rounding, which the activation passes on at a slope of at most 1.13; its own; the sum's.
              const double allowed = kUnit * (1.13 * std::fabs(sum) + 1.2 * std::max(1.0, std::fabs(sum)) + std::fabs(want));
              INFO(kernel << " act " << static_cast<int>(act) << " row " << r << " column " << i << " of " << width);
              REQUIRE(close<Out>(out.at(r, i), want, allowed));
            }
          }
        }
      }
    }
  });
}

TEST_CASE("geglu is gelu of the first half times the second") {
  each_pair([](auto in_type, auto out_type) {
    using In = decltype(in_type);
    using Out = decltype(out_type);
    for (const std::size_t width : kColumns) {
      Random random(width);
      Matrix<In> in(kRows, 2 * width, width % 3, width % 2);
      in.fill([&] { return 2 * random.normal(); });
      DeviceCounts counts(kRows, 1, 1);
      for (const std::uint64_t seed : kSeeds) {
        Matrix<Out> out(kMoreRows, width, width % 2);
        const cuda::GegluParams params = {counts.data(), in.data(), out.data(), in.ld(), out.ld(), out.width(), RowSet::tokens};
        run(name<In, Out>("geglu"), cuda::epilogue_shape(kMoreRows, width), params, seed);
        REQUIRE(out.untouched_but(kRows));
        for (std::size_t r = 0; r < kRows; ++r) {
          for (std::size_t i = 0; i < width; ++i) {
            const double a = in.at(r, i);
            const double g = in.at(r, width + i);
            const double want = gelu(a) * g;
            REQUIRE(close<Out>(out.at(r, i), want, kUnit * (1.2 * std::max(1.0, std::fabs(a)) * std::fabs(g) + std::fabs(want))));
          }
        }
      }
    }
  });
}

TEST_CASE("an epilogue in place, with NaN and infinities") {
  Matrix<float> m(1, 5);
  const float values[] = {std::nanf(""), -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity(), -0.5F, 2};
  DeviceCounts counts(1, 1, 1);
  for (const Act act : {Act::none, Act::gelu, Act::relu}) {
    std::copy(std::begin(values), std::end(values), m.data());
    const cuda::BiasActParams params = {counts.data(), m.data(), nullptr, m.data(), 5, 5, 5, RowSet::seqs, act, 0};
    run("kime_bias_act_f32_f32", cuda::epilogue_shape(1, 5), params, 1);
    CHECK(std::isnan(m(0, 0)));
    CHECK(m(0, 1) == (act == Act::none ? values[1] : 0.0F));
    CHECK(m(0, 2) == values[2]);
    CHECK((act == Act::relu ? m(0, 3) == 0 : m(0, 3) < 0));
  }
}

TEST_CASE("exp, ln and gelu have the bits of the CPU's") {
  std::vector<float> x;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    x.push_back(std::bit_cast<float>(i << 16 | (i * 40503U & 0xFFFFU)));
  }
  for (int i = -30000; i < 30000; ++i) {
    x.push_back(static_cast<float>(i) * 0x1.1p-8F);
  }
  std::vector<float> want(x.size());
  std::vector<float> got(x.size());
  const auto compare = [&](auto cpu, auto gpu, auto holds) {
    cpu(x.data(), x.size(), want.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      got[i] = holds(x[i]) ? gpu(x[i]) : want[i];
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO("of " << x[i]);
      REQUIRE((bits(got[i]) == bits(want[i]) || (std::isnan(got[i]) && std::isnan(want[i]))));
    }
  };
  const auto any = [](float) { return true; };
  compare(kernels::table().exp, cuda::exp_f32, any);
  compare(kernels::table().gelu, cuda::gelu_f32, any);
  compare(kernels::table().log, cuda::log_f32, [](float v) { return !(v < std::numeric_limits<float>::min()); });
}

}  // namespace
}  // namespace kime::test
