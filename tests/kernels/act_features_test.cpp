// The act head's features of a record's logits against float64, on every target, with the same bits.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/each_target.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

using kernels::Table;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The features, from logits with NaN on both sides, into a guarded array.
std::vector<float> features(const Table& table, const std::vector<float>& logits) {
  std::vector<float> padded(logits.size() + 32, kNaN);
  std::copy(logits.begin(), logits.end(), padded.begin() + 16);
  Guarded out(4, 2);
  table.act_features(padded.data() + 16, logits.size(), out.data());
  REQUIRE(out.intact());
  return {out.span().begin(), out.span().end()};
}

std::vector<std::size_t> counts() {
  std::vector<std::size_t> k;
  for (std::size_t i = 1; i <= 70; ++i) {
    k.push_back(i);
  }
  k.insert(k.end(), {127, 128, 129, 256, 1000, 5000});
  return k;
}

TEST_CASE("act features are the float64 ones within rounding") {
  each_target([](const Table& table) {
    for (const std::size_t k : counts()) {
      for (const float scale : {0.01F, 1.0F, 10.0F, 200.0F}) {
        Random random(k);
        std::vector<float> logits = random.normals(k, scale);
        const std::array<double, 4> want = act_features(logits);
        const std::vector<float> got = features(table, logits);
        // A sum of k / 16 + 4 additions of exps that are right to 2 units.
        const double allowed = kUnit * (static_cast<double>(k) / 16 + 12);
        for (std::size_t i = 0; i < 4; ++i) {
          INFO("feature " << i << " of " << k << " options, scale " << scale << ": " << got[i] << " for " << want[i]);
          REQUIRE(std::fabs(got[i] - want[i]) <= allowed);
        }
      }
    }
  });
}

TEST_CASE("act features of one option, of equal ones and of none") {
  each_target([](const Table& table) {
    CHECK(features(table, {}) == std::vector<float>{0, 0, 0, 0});
    CHECK(features(table, {-7.5F}) == std::vector<float>{1, 1, 0, 2.0F / 255});
    CHECK(features(table, {3, 3}) == std::vector<float>{0.5F, 0, 1, 2.0F / 255});
    CHECK(features(table, {1, 5, 5, 5, 5})[1] == 0);
    CHECK(features(table, {0, 1000}) == std::vector<float>{1, 1, 0, 2.0F / 255});
    CHECK(features(table, {0, -kInfinity}) == std::vector<float>{1, 1, 0, 2.0F / 255});
  });
}

TEST_CASE("the two largest are found wherever they stand") {
  each_target([](const Table& table) {
    const std::size_t k = 37;
    for (std::size_t first = 0; first < k; ++first) {
      for (std::size_t second = 0; second < k; ++second) {
        if (first == second) {
          continue;
        }
        std::vector<float> logits(k, -50.0F);
        logits[first] = 2;
        logits[second] = 1;
        const std::array<double, 4> want = act_features(logits);
        REQUIRE(std::fabs(features(table, logits)[1] - want[1]) < 1e-6);
      }
    }
  });
}

TEST_CASE("a NaN or an infinity among the logits gives NaN features and no harm") {
  each_target([](const Table& table) {
    for (const std::size_t k : std::vector<std::size_t>{1, 2, 16, 17, 33}) {
      for (std::size_t at = 0; at < k; ++at) {
        for (const float bad : {kNaN, kInfinity}) {
          std::vector<float> logits(k, 1.0F);
          logits[at] = bad;
          const std::vector<float> got = features(table, logits);
          REQUIRE((std::isnan(got[0]) && std::isnan(got[1]) && std::isnan(got[2])));
        }
      }
      const std::vector<float> none = features(table, std::vector<float>(k, -kInfinity));
      REQUIRE(std::isnan(none[0]));
    }
  });
}

TEST_CASE("act features have the same bits on every target") {
  for (const std::size_t k : counts()) {
    Random random(k + 7);
    const std::vector<float> logits = random.normals(k, 4);
    const std::vector<float> want = features(*kernels::tables().back(), logits);
    each_target([&](const Table& table) { REQUIRE(first_difference(want, features(table, logits)).empty()); });
  }
}

}  // namespace
}  // namespace kime::test
