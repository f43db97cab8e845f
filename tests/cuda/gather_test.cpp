// The index of a batch and what moves rows by it, against plain loops: random batches with sequences without tokens and without markers.
#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

#include "kernels/cuda/params_rows.h"
#include "tests/cuda/kernel_case.h"

namespace kime::test {
namespace {

using cuda::RowSet;
using cuda::shim::Buffer;
using Words = std::vector<std::uint32_t>;

struct RandomBatch {
  Words cu{0};
  Words markers;
  Words mcu{0};
  std::vector<std::uint8_t> qtype;

  RandomBatch(Random& random, std::size_t seqs, std::size_t longest) {
    for (std::size_t s = 0; s < seqs; ++s) {
      const std::size_t length = random.below(5) == 0 ? 0 : 1 + random.below(longest);
      cu.push_back(cu.back() + static_cast<std::uint32_t>(length));
      for (std::size_t m = length == 0 ? 0 : random.below(5); m != 0; --m) {
        markers.push_back(static_cast<std::uint32_t>(random.below(length)));
      }
      mcu.push_back(static_cast<std::uint32_t>(markers.size()));
      qtype.push_back(static_cast<std::uint8_t>(random.below(3)));
    }
  }
  [[nodiscard]] std::size_t seqs() const { return qtype.size(); }
  [[nodiscard]] std::size_t tokens() const { return cu.back(); }
  [[nodiscard]] std::size_t picks() const { return seqs() + markers.size(); }
};

// What kime_index is to say.
struct Index {
  Words seq_of_token;
  Words seq_of_pick;
  Words pick_tokens;
  Words query_rows;
  Words query_positions;

  explicit Index(const RandomBatch& b) : seq_of_pick(b.picks()), pick_tokens(b.picks()) {
    for (std::uint32_t s = 0; s < b.seqs(); ++s) {
      seq_of_token.insert(seq_of_token.end(), b.cu[s + 1] - b.cu[s], s);
      seq_of_pick[s] = s;
      pick_tokens[s] = b.cu[s + 1] == b.cu[s] ? cuda::kNoToken : b.cu[s];
      query_rows.push_back(s);
      query_positions.push_back(0);
      for (std::uint32_t m = b.mcu[s]; m < b.mcu[s + 1]; ++m) {
        const auto pick = static_cast<std::uint32_t>(b.seqs()) + m;
        seq_of_pick[pick] = s;
        pick_tokens[pick] = b.cu[s] + b.markers[m];
        query_rows.push_back(pick);
        query_positions.push_back(b.markers[m]);
      }
    }
  }
};

// The words, then as many as were never written.
bool holds(Buffer<std::uint32_t>& got, const Words& want) {
  const auto rest = got.span().subspan(want.size());
  return got.intact() && std::equal(want.begin(), want.end(), got.span().begin()) &&
         std::all_of(rest.begin(), rest.end(), [](std::uint32_t word) { return word == 0xFFFFFFFFU; });
}

TEST_CASE("counts are written where they belong, and nothing else is") {
  Buffer<cuda::Counts> counts(2);
  run("kime_set_counts", {}, cuda::SetCountsParams{counts.data(), {7, 8, 9}}, 1);
  CHECK(counts[0].tokens == 7);
  CHECK(counts[0].seqs == 8);
  CHECK(counts[0].markers == 9);
  CHECK(counts[1].tokens == 0xFFFFFFFFU);
  CHECK(counts.intact());
}

TEST_CASE("the index of a batch names each token's and pick's sequence, token and position") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    INFO("seed " << seed);
    const std::size_t seqs = seed == 1 ? 0 : 1 + random.below(20);
    const RandomBatch batch(random, seqs, seed % 3 == 0 ? 400 : 9);
    const Index want(batch);
    Buffer<std::uint32_t> cu(batch.cu);
    Buffer<std::uint32_t> markers(batch.markers);
    Buffer<std::uint32_t> mcu(batch.mcu);
    Buffer<std::uint32_t> seq_of_token(batch.tokens() + 5);
    Buffer<std::uint32_t> seq_of_pick(batch.picks() + 5);
    Buffer<std::uint32_t> pick_tokens(batch.picks() + 5);
    Buffer<std::uint32_t> query_rows(batch.picks() + 5);
    Buffer<std::uint32_t> query_positions(batch.picks() + 5);
    DeviceCounts counts(batch.tokens(), batch.seqs(), batch.markers.size());
    const cuda::IndexParams params = {counts.data(),      cu.data(),           markers.data(),
                                      mcu.data(),         seq_of_token.data(), seq_of_pick.data(),
                                      pick_tokens.data(), query_rows.data(),   query_positions.data()};
    run("kime_index", cuda::index_shape(batch.seqs() + 3), params, seed);
    REQUIRE(holds(seq_of_token, want.seq_of_token));
    REQUIRE(holds(seq_of_pick, want.seq_of_pick));
    REQUIRE(holds(pick_tokens, want.pick_tokens));
    REQUIRE(holds(query_rows, want.query_rows));
    REQUIRE(holds(query_positions, want.query_positions));
  }
}

TEST_CASE("picks and markers are gathered to the last column, and a pick without a token is 0") {
  each_type([](auto type) {
    using T = decltype(type);
    const std::string suffix = Rounding<T>::name;
    for (const std::size_t width : std::vector<std::size_t>{1, 4, 5, 128, 131, 768}) {
      Random random(width);
      const RandomBatch batch(random, 13, 6);
      const Index index(batch);
      Matrix<T> in(batch.tokens(), width, width % 3, width % 2);
      in.fill([&] { return random.normal(); });
      Buffer<std::uint32_t> pick_tokens(index.pick_tokens);
      DeviceCounts counts(batch.tokens(), batch.seqs(), batch.markers.size());
      Matrix<T> picks(batch.picks() + 9, width, 1);
      run("kime_gather_picks_" + suffix, cuda::row_shape(picks.rows()),
          cuda::GatherParams{counts.data(), pick_tokens.data(), in.data(), picks.data(), in.ld(), picks.ld(), in.width()}, width);
      REQUIRE(picks.untouched_but(batch.picks()));
      Matrix<T> marked(batch.markers.size() + 9, width);
      run("kime_gather_markers_" + suffix, cuda::row_shape(marked.rows()),
          cuda::GatherParams{counts.data(), nullptr, picks.data(), marked.data(), picks.ld(), marked.ld(), in.width()}, width);
      REQUIRE(marked.untouched_but(batch.markers.size()));
      for (std::size_t pick = 0; pick < batch.picks(); ++pick) {
        const std::uint32_t token = index.pick_tokens[pick];
        if (token == cuda::kNoToken) {
          REQUIRE(picks.row(pick) == std::vector<float>(width, 0.0F));
        } else {
          REQUIRE(picks.same_row(pick, in, token));
        }
        if (pick >= batch.seqs()) {
          REQUIRE(marked.same_row(pick - batch.seqs(), in, token));
        }
      }
    }
  });
}

TEST_CASE("each row gets its sequence's type added, and no other row") {
  for (const std::size_t width : std::vector<std::size_t>{1, 5, 128, 132, 768}) {
    Random random(width);
    const RandomBatch batch(random, 11, 7);
    const Index index(batch);
    Matrix<float> table(3, width);
    table.fill([&] { return random.normal(); });
    Buffer<std::uint8_t> qtype(batch.qtype);
    DeviceCounts counts(batch.tokens(), batch.seqs(), batch.markers.size());
    for (const RowSet set : {RowSet::tokens, RowSet::picks}) {
      const Words& seqs = set == RowSet::tokens ? index.seq_of_token : index.seq_of_pick;
      Buffer<std::uint32_t> seq_of_row(seqs);
      Matrix<float> before(seqs.size(), width);
      before.fill([&] { return random.normal(); });
      Matrix<float> value(seqs.size() + 3, width, width % 3);
      for (std::size_t r = 0; r < seqs.size(); ++r) {
        for (std::size_t i = 0; i < width; ++i) {
          value(r, i) = before(r, i);
        }
      }
      run("kime_add_type", cuda::row_shape(value.rows()),
          cuda::AddTypeParams{counts.data(), seq_of_row.data(), qtype.data(), table.data(), value.data(), value.ld(), value.width(), set},
          width);
      REQUIRE(value.untouched_but(seqs.size()));
      for (std::size_t r = 0; r < seqs.size(); ++r) {
        for (std::size_t i = 0; i < width; ++i) {
          REQUIRE(value(r, i) == before(r, i) + table(batch.qtype[seqs[r]], i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kime::test
