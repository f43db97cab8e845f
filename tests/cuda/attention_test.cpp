// Attention on the GPU's kernels against float64: lengths around tiles and blocks, head widths, windows, picks; the same bits alone and in
// any company; NaN wherever nothing may look.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/params_attention.h"
#include "tests/cuda/kernel_case.h"

namespace kime::test {
namespace {

using cuda::AttentionParams;
using cuda::AttentionTile;
using cuda::AttentionTilesParams;
using cuda::kFullReach;
using cuda::shim::Buffer;
using Lengths = std::vector<std::size_t>;

template <class T>
constexpr bool kFloats = std::is_same_v<T, float>;

struct Spec {
  std::uint32_t heads = 2;
  std::uint32_t width = 64;
  std::uint32_t reach = kFullReach;
  bool rope = true;
  float size = 1;
};

// Random sequences, one value of q, k and v as the encoder has them; markers at any places of their sequence.
template <class T>
class Sequences {
 public:
  Sequences(const Lengths& lengths, const Spec& spec, std::uint64_t seed)
      : spec_(spec), random_(seed), cu_(ends(lengths)), qkv_(cu_.back(), std::size_t{3} * spec.heads * spec.width, 8) {
    qkv_.fill([&] { return random_.normal(spec.size); });
    std::vector<std::uint32_t> mcu{0};
    std::uint32_t pick = static_cast<std::uint32_t>(lengths.size());
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      rows_.push_back(static_cast<std::uint32_t>(s));
      positions_.push_back(0);
      for (std::size_t m = lengths[s] == 0 ? 0 : s % 4 * 5; m > 0; --m) {
        rows_.push_back(pick++);
        positions_.push_back(static_cast<std::uint32_t>(random_.below(lengths[s])));
      }
      mcu.push_back(static_cast<std::uint32_t>(rows_.size() - s - 1));
    }
    mcu_ = mcu;
    const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
    for (std::size_t i = 0; i < longest * spec.width / 2; ++i) {
      const double angle = static_cast<double>(i / (spec.width / 2)) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i % (spec.width / 2)) / static_cast<double>(spec.width));
      cosine_.push_back(static_cast<float>(std::cos(angle)));
      sine_.push_back(static_cast<float>(std::sin(angle)));
    }
  }

  [[nodiscard]] Matrix<T>& qkv() { return qkv_; }
  [[nodiscard]] std::size_t seqs() const { return cu_.size() - 1; }
  [[nodiscard]] std::size_t first(std::size_t s) const { return cu_[s]; }
  [[nodiscard]] std::size_t length(std::size_t s) const { return cu_[s + 1] - cu_[s]; }
  [[nodiscard]] std::size_t width() const { return std::size_t{spec_.heads} * spec_.width; }
  [[nodiscard]] std::size_t picks() const { return rows_.size(); }
  [[nodiscard]] const std::vector<std::uint32_t>& mcu() const { return mcu_; }
  [[nodiscard]] std::uint32_t pick_row(std::size_t entry) const { return rows_[entry]; }
  [[nodiscard]] std::uint32_t pick_position(std::size_t entry) const { return positions_[entry]; }

  // Every token's row.
  [[nodiscard]] Matrix<T> run_tokens(std::uint64_t seed) {
    Matrix<T> out(cu_.back() + 3, width(), 8);
    launch(qkv_, out, false, seed);
    return out;
  }
  // Every pick's row, from queries that were gathered.
  [[nodiscard]] Matrix<T> run_picks(std::uint64_t seed) {
    Matrix<T> q(picks(), width(), 8);
    for (std::size_t s = 0; s < seqs(); ++s) {
      for (std::size_t entry = s + mcu_[s]; entry <= s + mcu_[s + 1]; ++entry) {
        if (length(s) != 0) {
          std::copy_n(&qkv_(cu_[s] + positions_[entry], 0), width(), &q(rows_[entry], 0));
        }
      }
    }
    Matrix<T> out(picks() + 3, width(), 8);
    launch(q, out, true, seed);
    return out;
  }

  // |out - float64| of token i of a sequence is as small as it must be, in every head.
  void check_row(Matrix<T>& out, std::size_t row, std::size_t s, std::size_t i) {
    for (std::size_t head = 0; head < spec_.heads; ++head) {
      check_head(out, row, s, i, head);
    }
  }

 private:
  static std::vector<std::uint32_t> ends(const Lengths& lengths) {
    std::vector<std::uint32_t> cu{0};
    for (const std::size_t length : lengths) {
      cu.push_back(cu.back() + static_cast<std::uint32_t>(length));
    }
    return cu;
  }

  void launch(Matrix<T>& q, Matrix<T>& out, bool of_picks, std::uint64_t seed) {
    constexpr unsigned kProcessors = 1;  // few blocks, which go from tile to tile
    DeviceCounts counts(cu_.back(), seqs(), picks() - seqs());
    Buffer<std::uint32_t> cu(cu_);
    Buffer<std::uint32_t> mcu(mcu_);
    Buffer<std::uint32_t> rows(rows_);
    Buffer<std::uint32_t> positions(positions_);
    Buffer<float> cosine(cosine_);
    Buffer<float> sine(sine_);
    const std::size_t most = cuda::attention_tiles(kFloats<T>, of_picks ? picks() : cu_.back(), seqs());
    Buffer<AttentionTile> tiles(most);
    Buffer<std::uint32_t> tile_count(1);
    run("kime_attention_tiles", cuda::attention_tiles_shape(),
        AttentionTilesParams{counts.data(), cu.data(), of_picks ? mcu.data() : nullptr, tiles.data(), tile_count.data(),
                             cuda::attention_queries(kFloats<T>)},
        seed);
    AttentionParams p = {};
    p.counts = counts.data();
    p.tiles = tiles.data();
    p.tile_count = tile_count.data();
    p.cu = cu.data();
    p.mcu = of_picks ? mcu.data() : nullptr;
    p.query_rows = of_picks ? rows.data() : nullptr;
    p.query_positions = of_picks ? positions.data() : nullptr;
    p.cosine = spec_.rope ? cosine.data() : nullptr;
    p.sine = spec_.rope ? sine.data() : nullptr;
    p.q = q.data();
    p.k = qkv_.data() + width();
    p.v = qkv_.data() + 2 * width();
    p.out = out.data();
    p.ld_q = q.ld();
    p.ld_k = p.ld_v = qkv_.ld();
    p.ld_out = out.ld();
    p.heads = spec_.heads;
    p.head_width = spec_.width;
    p.reach = spec_.reach;
    p.scale = scale();
    const unsigned padded = cuda::padded_head(spec_.width);
    run(cuda::attention_name(Rounding<T>::name, padded), cuda::attention_shape(kFloats<T>, padded, most, spec_.heads, kProcessors), p,
        seed);
    CHECK(out.untouched_but(of_picks ? picks() : cu_.back()));
  }

  [[nodiscard]] float scale() const { return 1 / std::sqrt(static_cast<float>(spec_.width)); }

  struct Turned {
    std::vector<double> value;
    std::vector<double> size;
  };
  // `part` 0 is q, 1 is k.
  [[nodiscard]] Turned turned(std::size_t s, std::size_t i, std::size_t head, std::size_t part) {
    const std::size_t half = spec_.width / 2;
    const std::size_t column = part * width() + head * spec_.width;
    Turned t{std::vector<double>(spec_.width), std::vector<double>(spec_.width)};
    for (std::size_t c = 0; c < half; ++c) {
      const double lo = static_cast<double>(qkv_.at(cu_[s] + i, column + c));
      const double hi = static_cast<double>(qkv_.at(cu_[s] + i, column + half + c));
      const double cosine = spec_.rope ? static_cast<double>(cosine_[i * half + c]) : 1;
      const double sine = spec_.rope ? static_cast<double>(sine_[i * half + c]) : 0;
      t.value[c] = lo * cosine - hi * sine;
      t.value[half + c] = hi * cosine + lo * sine;
      t.size[c] = std::fabs(lo * cosine) + std::fabs(hi * sine);
      t.size[half + c] = std::fabs(hi * cosine) + std::fabs(lo * sine);
    }
    return t;
  }

  void check_head(Matrix<T>& out, std::size_t row, std::size_t s, std::size_t i, std::size_t head) {
    const Turned q = turned(s, i, head, 0);
    std::vector<double> weights;
    std::vector<std::size_t> seen;
    double magnitude = 0;
    for (std::size_t j = 0; j < length(s); ++j) {
      if ((i > j ? i - j : j - i) > spec_.reach) {
        continue;
      }
      const Turned k = turned(s, j, head, 1);
      double score = 0;
      double size = 0;
      for (std::size_t c = 0; c < spec_.width; ++c) {
        score += q.value[c] * k.value[c];
        size += q.size[c] * k.size[c];
      }
      weights.push_back(score * static_cast<double>(scale()));
      magnitude = std::max(magnitude, size * static_cast<double>(scale()));
      seen.push_back(j);
    }
    const double max = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& w : weights) {
      w = std::exp(w - max);
      sum += w;
    }
    // A score errs by its chain, by the roundings of rope, scale and of q and k themselves; a weight by twice that, by exp's own error and
    // its own rounding; then the chains of the sum and of the values.
    const auto n = static_cast<double>(seen.size());
    const double score_error = (kUnit * (static_cast<double>(spec_.width) + 12) + (spec_.rope ? 2 * Rounding<T>::unit : 0)) * magnitude;
    const double relative = std::expm1(2 * score_error) + Rounding<T>::unit + kUnit * (1.1 * n + 40);
    for (std::size_t c = 0; c < spec_.width; ++c) {
      double want = 0;
      double size = 0;
      double least = 0;
      for (std::size_t x = 0; x < seen.size(); ++x) {
        const double v = static_cast<double>(qkv_.at(cu_[s] + seen[x], 2 * width() + head * spec_.width + c));
        want += weights[x] / sum * v;
        size += std::fabs(weights[x] / sum * v);
        least += Rounding<T>::least * std::fabs(v);
      }
      const float got = out.at(row, head * spec_.width + c);
      if (!close<T>(got, want, relative * size + least + 1e-30)) {
        FAIL("sequence " << s << " of " << length(s) << ", token " << i << ", head " << head << ", column " << c << ": " << got << " for "
                         << want << " within " << relative * size);
      }
    }
  }

  Spec spec_;
  Random random_;
  std::vector<std::uint32_t> cu_;
  std::vector<std::uint32_t> mcu_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> positions_;
  std::vector<float> cosine_;
  std::vector<float> sine_;
  Matrix<T> qkv_;
};

template <class T>
void check(const Lengths& lengths, const Spec& spec, std::uint64_t seed, std::size_t step = 1) {
  CAPTURE(Rounding<T>::name, spec.width, spec.reach, spec.rope, spec.size, seed);
  Sequences<T> sequences(lengths, spec, seed);
  Matrix<T> out = sequences.run_tokens(seed);
  for (std::size_t s = 0; s < sequences.seqs(); ++s) {
    for (std::size_t i = 0; i < sequences.length(s); i += i + step < sequences.length(s) ? step : 1) {
      sequences.check_row(out, sequences.first(s) + i, s, i);
    }
  }
}

}  // namespace

TEST_CASE("attention: float64 over lengths around tiles and blocks, every kind of window") {
  each_type([](auto type) {
    std::uint64_t seed = 20;
    for (const std::uint32_t reach : {0U, 1U, 5U, 63U, 64U, 65U, kFullReach}) {
      check<decltype(type)>({1, 15, 16, 17, 63, 64, 65}, {1, 64, reach}, ++seed, 3);
      check<decltype(type)>({2, 127, 31, 128, 33, 129}, {1, 32, reach}, ++seed, 7);
    }
    check<decltype(type)>({300}, {1, 64, 64}, ++seed, 11);
  });
}

TEST_CASE("attention: head widths") {
  each_type([](auto type) {
    std::uint64_t seed = 50;
    for (const std::uint32_t width : {8U, 24U, 32U, 40U, 64U, 72U, 96U, 104U, 128U}) {
      check<decltype(type)>({70, 3}, {2, width, kFullReach}, ++seed, 9);
      check<decltype(type)>({1, 81}, {3, width, 20, false}, ++seed, 9);
    }
  });
  CHECK(cuda::padded_head(8) == 32);
  CHECK(cuda::padded_head(72) == 96);
  CHECK(cuda::padded_head(104) == 128);
  CHECK(cuda::padded_head(0) == 0);
  CHECK(cuda::padded_head(12) == 0);
  CHECK(cuda::padded_head(136) == 0);
}

TEST_CASE("attention: several orders of the warps") {
  each_type([](auto type) {
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
      check<decltype(type)>({150, 20}, {2, 32, 64}, seed, 10);
    }
  });
}

TEST_CASE("attention: scores far apart move the maximum from block to block") {
  each_type([](auto type) {
    check<decltype(type)>({200}, {1, 64, kFullReach, false, 5}, 3, 5);
    check<decltype(type)>({200}, {1, 32, 70, false, 8}, 4, 5);
  });
}

TEST_CASE("attention: picks have their tokens' bits") {
  each_type([](auto type) {
    using T = decltype(type);
    for (const std::uint32_t reach : {0U, 30U, kFullReach}) {
      Sequences<T> sequences({150, 1, 40, 200, 0, 64, 9, 129}, {2, 64, reach}, 7);
      Matrix<T> tokens = sequences.run_tokens(8);
      Matrix<T> picks = sequences.run_picks(9);
      for (std::size_t s = 0; s < sequences.seqs(); ++s) {
        for (std::size_t entry = s + sequences.mcu()[s]; entry <= s + sequences.mcu()[s + 1]; ++entry) {
          CAPTURE(Rounding<T>::name, reach, s, entry);
          if (sequences.length(s) == 0) {
            CHECK(picks.row(sequences.pick_row(entry)) == std::vector<float>(sequences.width(), 0.0F));
          } else {
            REQUIRE(picks.same_row(sequences.pick_row(entry), tokens, sequences.first(s) + sequences.pick_position(entry)));
          }
        }
      }
    }
  });
}

TEST_CASE("attention: the picks of sequences without tokens are zeros, many in a row too") {
  each_type([](auto type) {
    Lengths lengths(24, 0);
    lengths[20] = 3;
    Sequences<decltype(type)> sequences(lengths, {2, 32}, 5);
    for (const std::uint64_t seed : kSeeds) {
      Matrix<decltype(type)> picks = sequences.run_picks(seed);
      for (std::size_t s = 0; s < lengths.size(); ++s) {
        CHECK((picks.row(s) == std::vector<float>(sequences.width(), 0.0F)) == (lengths[s] == 0));
      }
    }
  });
}

TEST_CASE("attention: a sequence alone or in any company has the same bits, whatever the others hold") {
  each_type([](auto type) {
    using T = decltype(type);
    for (const std::uint32_t reach : {20U, kFullReach}) {
      const Spec spec{2, 40, reach};
      Sequences<T> batch({30, 130, 65}, spec, 11);
      Sequences<T> alone({130}, spec, 12);
      for (std::size_t i = 0; i < 130; ++i) {
        std::copy_n(&batch.qkv()(30 + i, 0), batch.qkv().width(), &alone.qkv()(i, 0));
      }
      for (const std::size_t s : {std::size_t{0}, std::size_t{2}}) {
        for (std::size_t i = 0; i < batch.length(s); ++i) {
          std::fill_n(&batch.qkv()(batch.first(s) + i, 0), batch.qkv().width(), cuda::from_float(NAN, cuda::Type<T>()));
        }
      }
      Matrix<T> got = batch.run_tokens(1);
      Matrix<T> want = alone.run_tokens(2);
      for (std::size_t i = 0; i < 130; ++i) {
        CAPTURE(Rounding<T>::name, reach, i);
        REQUIRE(got.same_row(30 + i, want, i));
      }
    }
  });
}

TEST_CASE("attention: a key that a query does not see does not matter, in float32 its value neither") {
  each_type([](auto type) {
    using T = decltype(type);
    const Spec spec{1, 64, 20};
    for (const std::size_t bad : {std::size_t{0}, std::size_t{63}, std::size_t{64}, std::size_t{149}}) {
      Sequences<T> clean({150}, spec, 13);
      Sequences<T> poisoned({150}, spec, 13);
      std::fill_n(&poisoned.qkv()(bad, 64), kFloats<T> ? 128 : 64, cuda::from_float(NAN, cuda::Type<T>()));
      Matrix<T> want = clean.run_tokens(1);
      Matrix<T> got = poisoned.run_tokens(2);
      for (std::size_t i = 0; i < 150; ++i) {
        CAPTURE(Rounding<T>::name, bad, i);
        if ((i > bad ? i - bad : bad - i) <= 20) {
          REQUIRE(std::isnan(got.at(i, 5)));
        } else {
          REQUIRE(got.same_row(i, want, i));
        }
      }
    }
  });
}

TEST_CASE("attention: the table of tiles") {
  for (const std::uint64_t seed : kSeeds) {
    for (const std::size_t seqs : {std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{257}, std::size_t{600}}) {
      for (const bool of_picks : {false, true}) {
        Random random(seed * 1000 + seqs);
        std::vector<std::uint32_t> cu{0};
        std::vector<std::uint32_t> mcu{0};
        for (std::size_t s = 0; s < seqs; ++s) {
          cu.push_back(cu.back() + static_cast<std::uint32_t>(random.below(s % 50 == 0 ? 2000 : 200)));
          mcu.push_back(mcu.back() + static_cast<std::uint32_t>(random.below(140)));
        }
        DeviceCounts counts(cu.back(), seqs, mcu.back());
        Buffer<std::uint32_t> cu_buffer(cu);
        Buffer<std::uint32_t> mcu_buffer(mcu);
        Buffer<AttentionTile> tiles(cuda::attention_tiles(false, of_picks ? seqs + mcu.back() : cu.back(), seqs));
        Buffer<std::uint32_t> count(1);
        run("kime_attention_tiles", cuda::attention_tiles_shape(),
            AttentionTilesParams{counts.data(), cu_buffer.data(), of_picks ? mcu_buffer.data() : nullptr, tiles.data(), count.data(), 128},
            seed);
        std::size_t at = 0;
        for (std::size_t s = 0; s < seqs; ++s) {
          const std::size_t queries = of_picks ? 1 + mcu[s + 1] - mcu[s] : cu[s + 1] - cu[s];
          for (std::size_t query = 0; query < queries; query += 128) {
            REQUIRE(at < count[0]);
            REQUIRE(tiles[at].seq == s);
            REQUIRE(tiles[at].query0 == query);
            ++at;
          }
        }
        CHECK(at == count[0]);
        CHECK(tiles.intact());
      }
    }
  }
}

}  // namespace kime::test
