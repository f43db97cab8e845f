// Narrow products by every implementation that this CPU has: bf16 against the chains that narrow.h names, bit for bit; int8 against its
// integers, bit for bit among the implementations, and against float64 within what its rounding can err. With strides, odd shapes, any
// split, and sentinels around what is written.
#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/aligned.h"
#include "tests/kernels/each_target.h"
#include "tests/support/reference.h"

namespace kime::test {
namespace {

using kernels::Activation;
using kernels::Narrow;
using kernels::Table;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  std::size_t m;
  std::size_t n;
  std::size_t k;
};

// Random operands, with rows of a apart.
struct Problem {
  Problem(const Shape& shape, std::uint64_t seed) : s(shape), a(s.m * lda(), kNaN) {
    Random random(seed);
    for (std::size_t r = 0; r < s.m; ++r) {
      for (std::size_t i = 0; i < s.k; ++i) {
        a[r * lda() + i] = random.normal();
      }
    }
    w = random.normals(s.n * s.k, 1 / std::sqrt(static_cast<float>(s.k)));
    bias = random.normals(s.n);
  }
  [[nodiscard]] std::size_t lda() const { return s.k + 3; }

  Shape s;
  std::vector<float> a;
  std::vector<float> w;
  std::vector<float> bias;
};

// A problem's operands as an implementation reads them.
class Prepared {
 public:
  Prepared(const Table& table, const Narrow& narrow, const Problem& problem, const std::vector<float>* channels = nullptr)
      : table_(table),
        narrow_(narrow),
        problem_(problem),
        rows_((problem.s.m * narrow.row_bytes(problem.s.k)) / 4 + 16),
        packed_(narrow.packed_bytes(problem.s.n, problem.s.k) / 4 + 16),
        a_scales_(problem.s.m),
        b_scales_((problem.s.n + 15) / 16 * 16),
        start_(b_scales_.size()) {
    const auto& s = problem.s;
    table.prepare(narrow, problem.a.data(), problem.lda(), s.m, s.k, channels == nullptr ? nullptr : channels->data(), bytes(rows_),
                  a_scales_.data());
    Aligned scratch(kernels::pack_scratch(narrow, s.k) / 4 + 16);
    // In two goes, as panels are loaded.
    const std::size_t first = std::min<std::size_t>(s.n, s.n / 32 * 16);
    const kernels::NarrowColumns to{s.k, nullptr, bytes(packed_), s.n, 0, b_scales_.data(), start_.data()};
    pack(to, 0, first, scratch);
    pack(to, first, s.n, scratch);
  }

  void run(const kernels::Gemm& epilogue, Guarded& c, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
    kernels::Gemm g = epilogue;
    g.n = problem_.s.n;
    g.k = problem_.s.k;
    g.c = c.data();
    g.ldc = g.n + 5;
    table_.narrow_gemm({&narrow_, bytes(rows_), a_scales_.data(), bytes(packed_), b_scales_.data(), nullptr, start_.data()}, g, row0, row1,
                       panel0, panel1);
  }
  [[nodiscard]] Guarded run(const kernels::Gemm& epilogue = {}) {
    Guarded c = output(problem_.s);
    run(epilogue, c, 0, problem_.s.m, 0, kernels::panels(problem_.s.n));
    return c;
  }
  [[nodiscard]] static Guarded output(const Shape& s) { return Guarded((s.m - 1) * (s.n + 5) + s.n, 5, -77); }

 private:
  static std::byte* bytes(Aligned& floats) { return reinterpret_cast<std::byte*>(floats.data()); }
  void pack(kernels::NarrowColumns to, std::size_t from, std::size_t end, Aligned& scratch) {
    to.column = from;
    if (from < end) {
      table_.pack_narrow(narrow_, problem_.w.data() + from * to.k, kernels::Element::f32, end - from, to, bytes(scratch));
    }
  }

  const Table& table_;
  const Narrow& narrow_;
  const Problem& problem_;
  Aligned rows_;
  Aligned packed_;
  std::vector<float> a_scales_;
  std::vector<float> b_scales_;
  std::vector<std::int32_t> start_;
};

std::uint64_t fresh_seed() {
  return std::random_device{}();
}

float to_bf16(float x) {
  if (std::isnan(x)) {
    return x;
  }
  auto bits = std::bit_cast<std::uint32_t>(x);
  bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U;
  return std::bit_cast<float>(bits);
}

float flushed(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}

// The contract's sum for one output; values away from the subnormal border, where flushing before or after rounding is the same.
float chains(const float* a, const float* w, std::size_t k) {
  float c = 0;
  for (std::size_t k0 = 0; k0 < k; k0 += 32) {
    float sums[2] = {0, 0};
    for (std::size_t i = k0; i < std::min(k, k0 + 32); ++i) {
      float& sum = sums[i % 2];
      sum = flushed(std::fma(flushed(to_bf16(a[i])), flushed(to_bf16(w[i])), sum));
    }
    c = flushed(c + flushed(sums[0] + sums[1]));
  }
  return c;
}

template <class F>
void each_narrow(bool integers, F test) {
  for (const Table* table : kernels::tables()) {
    const Narrow& narrow = integers ? *table->int8 : *table->bf16;
    INFO("target " << table->target << ", " << narrow.name);
    test(*table, narrow);
  }
}

const std::initializer_list<Shape> kShapes = {{1, 16, 32},   {2, 1, 8},      {7, 33, 40},   {15, 64, 96},   {16, 80, 31}, {17, 48, 64},
                                              {31, 65, 128}, {33, 100, 200}, {40, 128, 72}, {5, 130, 1100}, {300, 16, 48}};

// Of all outputs together, against float64: how far off they are, how large they are, and how large those of such rows are by their norms
// (sums of few products may nearly cancel).
struct Sizes {
  double error = 0;
  double outputs = 0;
  double norms = 0;
};
Sizes sizes(const Problem& problem, Guarded& c) {
  const Shape& s = problem.s;
  Sizes all;
  for (std::size_t r = 0; r < s.m; ++r) {
    const float* a = problem.a.data() + r * problem.lda();
    for (std::size_t j = 0; j < s.n; ++j) {
      const float* w = problem.w.data() + j * s.k;
      const double want = dot(a, 1, w, 1, s.k).value;
      all.error += std::pow(double{c[r * (s.n + 5) + j]} - want, 2);
      all.outputs += want * want;
      all.norms += dot(a, 1, a, 1, s.k).value * dot(w, 1, w, 1, s.k).value / static_cast<double>(s.k);
    }
  }
  return {std::sqrt(all.error), std::sqrt(all.outputs), std::sqrt(all.norms)};
}

bool same(Guarded& a, Guarded& b) {
  return first_difference(a.span(), b.span()).empty();
}

}  // namespace

TEST_CASE("narrow: bf16 is the chains that the contract names", "[narrow]") {
  const std::uint64_t seed = fresh_seed();
  INFO("seed " << seed);
  for (const Shape& s : kShapes) {
    INFO(s.m << " x " << s.n << " x " << s.k);
    const Problem problem(s, seed);
    each_narrow(false, [&](const Table& table, const Narrow& narrow) {
      Guarded c = Prepared(table, narrow, problem).run();
      CHECK(c.intact());
      for (std::size_t r = 0; r < s.m; ++r) {
        for (std::size_t j = 0; j < s.n; ++j) {
          const float want = chains(problem.a.data() + r * problem.lda(), problem.w.data() + j * s.k, s.k);
          REQUIRE(std::bit_cast<std::uint32_t>(c[r * (s.n + 5) + j]) == std::bit_cast<std::uint32_t>(want));
        }
      }
    });
  }
}

TEST_CASE("narrow: bf16 is the same bits where values are subnormal, huge, infinite or no numbers", "[narrow]") {
  const std::uint64_t seed = fresh_seed();
  INFO("seed " << seed);
  Random random(seed);
  const Shape s{20, 40, 96};
  Problem problem(s, seed);
  for (int round = 0; round < 20; ++round) {
    const int from = round % 4 == 0 ? -140 : round % 4 == 1 ? -80 : round % 4 == 2 ? -30 : 50;
    const auto wild = [&] { return std::ldexp(random.normal(), from + static_cast<int>(random.below(40))); };
    for (std::size_t r = 0; r < s.m; ++r) {
      std::generate_n(problem.a.data() + r * problem.lda(), s.k, wild);
    }
    std::generate(problem.w.begin(), problem.w.end(), wild);
    if (round % 5 == 4) {
      problem.a[3] = kNaN;
      problem.a[2 * problem.lda() + 9] = std::numeric_limits<float>::infinity();
    }
    std::vector<Guarded> all;
    each_narrow(false, [&](const Table& table, const Narrow& narrow) {
      all.push_back(Prepared(table, narrow, problem).run());
      for (std::size_t i = 0; i < all.front().size(); ++i) {
        const float x = all.front()[i];
        const float y = all.back()[i];
        REQUIRE(((std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y)));
      }
    });
  }
}

TEST_CASE("narrow: int8 is near float64, and the same bits everywhere", "[narrow]") {
  const std::uint64_t seed = fresh_seed();
  INFO("seed " << seed);
  for (const Shape& s : kShapes) {
    INFO(s.m << " x " << s.n << " x " << s.k);
    const Problem problem(s, seed);
    std::vector<Guarded> all;
    each_narrow(true, [&](const Table& table, const Narrow& narrow) {
      all.push_back(Prepared(table, narrow, problem).run());
      CHECK(all.back().intact());
      CHECK(same(all.front(), all.back()));
    });
    // Two roundings of a 127th of a row's largest element, about 3.5 times its others: some 1.2 % in all.
    const Sizes found = sizes(problem, all.front());
    CHECK(found.error < 0.05 * found.norms);
  }
}

TEST_CASE("narrow: a channel that stands out costs the others little in int8", "[narrow]") {
  const Shape s{24, 48, 512};
  Problem problem(s, 5);
  for (std::size_t r = 0; r < s.m; ++r) {
    problem.a[r * problem.lda() + 77] *= 60;
  }
  for (std::size_t j = 0; j < s.n; ++j) {
    problem.w[j * s.k + 77] /= 60;
  }
  Guarded c = Prepared(kernels::table(), *kernels::table().int8, problem).run();
  const Sizes found = sizes(problem, c);
  CHECK(found.error < 0.06 * found.outputs);  // without the rotation it is over 0.12
}

TEST_CASE("narrow: epilogues, splits and other rows do not change a row's bits", "[narrow]") {
  const std::uint64_t seed = fresh_seed();
  INFO("seed " << seed);
  const Shape s{75, 150, 136};
  const Problem problem(s, seed);
  for (const bool integers : {false, true}) {
    std::vector<Guarded> all;
    each_narrow(integers, [&](const Table& table, const Narrow& narrow) {
      kernels::Gemm epilogue;
      epilogue.bias = problem.bias.data();
      epilogue.activation = Activation::relu;
      Prepared prepared(table, narrow, problem);
      all.push_back(prepared.run(epilogue));
      CHECK(same(all.front(), all.back()));
      Guarded pieces = Prepared::output(s);
      for (const auto& [row0, row1] : {std::pair<std::size_t, std::size_t>{40, 75}, {0, 1}, {1, 40}}) {
        prepared.run(epilogue, pieces, row0, row1, 1, 3);
        prepared.run(epilogue, pieces, row0, row1, 0, 1);
      }
      CHECK(pieces.intact());
      CHECK(same(all.front(), pieces));
      epilogue.accumulate = true;
      prepared.run(epilogue, pieces, 0, s.m, 0, 3);
      CHECK(pieces[3] == all.front()[3] + all.front()[3]);
    });
  }
}

TEST_CASE("narrow: int8 rows of zeros, of tiny numbers and of what is no number", "[narrow]") {
  const Shape s{4, 20, 64};
  Problem problem(s, 3);
  std::fill_n(problem.a.data(), s.k, 0.0F);
  std::fill_n(problem.a.data() + problem.lda(), s.k, 1e-38F);
  problem.a[2 * problem.lda() + 5] = std::numeric_limits<float>::infinity();
  problem.a[3 * problem.lda() + 5] = kNaN;
  each_narrow(true, [&](const Table& table, const Narrow& narrow) {
    Guarded c = Prepared(table, narrow, problem).run();
    for (std::size_t j = 0; j < s.n; ++j) {
      CHECK(c[j] == 0);
      CHECK(std::abs(c[s.n + 5 + j]) < 1e-35F);
      CHECK(std::isnan(c[2 * (s.n + 5) + j]));
      CHECK(std::isnan(c[3 * (s.n + 5) + j]));
    }
  });
}

TEST_CASE("narrow: implementations count the operations of their peak", "[narrow]") {
  for (const Table* table : kernels::tables()) {
    for (const Narrow* narrow : {table->bf16, table->int8}) {
      if (narrow->peak != nullptr) {
        INFO(table->target << ", " << narrow->name);
        float sink = 0;
        const double one = narrow->peak(1, &sink);
        CHECK(one > 0);
        CHECK(narrow->peak(50, &sink) == 50 * one);
      }
    }
  }
}

}  // namespace kime::test
