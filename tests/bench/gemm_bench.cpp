// Speed of the matrix product and of attention on one core against the core's own FMA peak: samples are interleaved, the best of each
// counts; the median of their ratios stands beside, since a clock may change between samples. The shapes are those of a 768 wide encoder
// and its head.
//
//   gemm_bench [samples]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "kernels/cpu/kernels.h"

namespace {

using kime::kernels::Activation;
using kime::kernels::Attention;
using kime::kernels::Gemm;
using kime::kernels::Table;

struct Aligned {
  explicit Aligned(std::size_t floats) : size(floats), data(static_cast<float*>(std::aligned_alloc(64, (floats * 4 + 63) / 64 * 64))) {
    for (std::size_t i = 0; i < size; ++i) {
      data[i] = static_cast<float>((i * 2654435761U) % 2048) / 1024.0F - 1.0F;
    }
  }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  ~Aligned() { std::free(data); }
  std::size_t size;
  float* data;
};

template <class F>
double seconds(F f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// FLOP/s of one sample of the peak, about a millisecond.
double peak_sample(const Table& table) {
  float sink = 0;
  double flops = 0;
  const double s = seconds([&] { flops = table.fma_peak(40000, &sink); });
  return flops / s;
}

struct Best {
  double rate = 0;
  double peak = 0;
  double ratio = 0;  // Median over the samples of a sample's rate by the peak around it.
};

template <class F>
Best measure(const Table& table, int samples, double flops, F f) {
  Best best;
  std::vector<double> ratios;
  f();
  double before = peak_sample(table);
  for (int i = 0; i < samples; ++i) {
    const double rate = flops / seconds(f);
    const double after = peak_sample(table);
    ratios.push_back(2 * rate / (before + after));
    best.rate = std::max(best.rate, rate);
    best.peak = std::max(best.peak, after);
    before = after;
  }
  std::sort(ratios.begin(), ratios.end());
  best.ratio = ratios[ratios.size() / 2];
  return best;
}

struct Shape {
  std::size_t n, k;
  Activation activation;
  bool accumulate;
};

// Enough copies of the weights that they come from memory as in a whole model, not from the cache.
void bench_gemm(const Table& table, int samples, std::size_t m, const Shape& shape) {
  const std::size_t floats = kime::kernels::packed_floats(shape.n, shape.k);
  const std::size_t copies = 1 + (32U << 20U) / floats;
  const Aligned a(m * shape.k);
  const Aligned b(copies * floats);
  Aligned c(m * shape.n);
  Gemm gemm;
  gemm.a = a.data;
  gemm.lda = shape.k;
  gemm.n = shape.n;
  gemm.k = shape.k;
  gemm.activation = shape.activation;
  gemm.accumulate = shape.accumulate;
  gemm.c = c.data;
  gemm.f = shape.activation == Activation::geglu ? shape.n / 2 : 0;
  gemm.ldc = shape.activation == Activation::geglu ? gemm.f : shape.n;
  std::size_t next = 0;
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  const Best best = measure(table, samples, flops, [&] {
    gemm.b = b.data + next++ % copies * floats;
    table.gemm(gemm, 0, m, 0, kime::kernels::panels(shape.n));
  });
  std::printf("%-7s m %4zu n %4zu k %4zu act %d  %6.1f GFLOP/s  peak %6.1f  %5.1f %%, median %5.1f %%  weights %5.1f GB/s\n", table.target,
              m, shape.n, shape.k, static_cast<int>(shape.activation), best.rate / 1e9, best.peak / 1e9, 100 * best.rate / best.peak,
              100 * best.ratio, best.rate / flops * static_cast<double>(floats) * 4 / 1e9);
}

void bench_attention(const Table& table, int samples, std::size_t length, std::size_t reach) {
  constexpr std::size_t kWidth = 64;
  constexpr std::size_t kHeads = 12;
  const std::size_t ld = 3 * kHeads * kWidth;
  const Aligned qkv(length * ld);
  Aligned out(length * kHeads * kWidth);
  Aligned scratch(kime::kernels::attention_scratch(length, kWidth));
  const Aligned angle(length * kWidth / 2);
  double pairs = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const std::size_t first = i > reach ? i - reach : 0;
    const std::size_t last = reach >= length - i ? length : i + reach + 1;
    pairs += static_cast<double>(last - first);
  }
  const Best best = measure(table, samples, 4.0 * pairs * kWidth * kHeads, [&] {
    for (std::size_t head = 0; head < kHeads; ++head) {
      Attention a;
      a.q = qkv.data + head * kWidth;
      a.k = a.q + kHeads * kWidth;
      a.v = a.k + kHeads * kWidth;
      a.ldq = a.ldk = a.ldv = ld;
      a.out = out.data + head * kWidth;
      a.ldo = kHeads * kWidth;
      a.keys = a.queries = length;
      a.head_width = kWidth;
      a.reach = reach;
      a.scale = 0.125F;
      a.cosine = angle.data;
      a.sine = angle.data;
      a.scratch = scratch.data;
      table.attention(a, 0, length);
    }
  });
  std::printf("%-7s attention length %5zu reach %5zd  %6.1f GFLOP/s  %5.1f %% of peak, median %5.1f %%\n", table.target, length,
              static_cast<std::ptrdiff_t>(reach), best.rate / 1e9, 100 * best.rate / best.peak, 100 * best.ratio);
}

}  // namespace

int main(int argc, char** argv) {
  const int samples = argc > 1 ? std::atoi(argv[1]) : 20;
  constexpr Shape kShapes[] = {
      {2304, 768, Activation::none, false}, {768, 768, Activation::none, true},   {2304, 768, Activation::geglu, false},
      {768, 1152, Activation::none, true},  {3072, 768, Activation::relu, false}, {768, 3072, Activation::none, true},
  };
  const Table& table = kime::kernels::table();
  for (const std::size_t m : std::initializer_list<std::size_t>{256, 512, 128, 64, 32, 16, 6, 1}) {
    for (const Shape& shape : kShapes) {
      bench_gemm(table, samples, m, shape);
    }
  }
  for (const std::size_t length : std::initializer_list<std::size_t>{32, 128, 256, 1024, 8192}) {
    bench_attention(table, samples, length, 64);
    bench_attention(table, length > 1024 ? 2 : samples, length, SIZE_MAX);
  }
  return 0;
}
