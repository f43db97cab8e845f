#include "kime/backend/cpu/runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace kime::cpu {

namespace {

// A helper is asked for each so many operations: some microseconds' worth, against the microsecond that asking costs.
constexpr std::size_t kGrain = std::size_t{1} << 18;
// Chunks a worker, so that one that was late or slow leaves little to wait for.
constexpr std::size_t kChunksEach = 4;
constexpr std::size_t kRowsEach = 8;     // the fewest rows of a chunk
constexpr std::size_t kTile = 6;         // rows of a gemm's register tile
constexpr std::size_t kGemmRows = 288;   // rows over which a gemm keeps its sums: chunks of more gain nothing
constexpr std::size_t kNarrowSpeed = 4;  // narrow products are at least about so much faster
constexpr std::uint32_t kNoToken = UINT32_MAX;
constexpr std::size_t kQueriesEach = 64;  // the fewest queries of a chunk, as each prepares its keys anew

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Runner::Runner(const kernels::Table& kernels, const Share& share, const Plan& plan, const Batch& batch, std::byte* memory)
    : kernels_(kernels),
      share_(share),
      plan_(plan),
      batch_(batch),
      extent_{batch.ids.size(), batch.seqs(), batch.markers.size()},
      arena_(reinterpret_cast<float*>(memory)),
      scratch_(reinterpret_cast<float*>(memory + plan.scratch_offset_)),
      prepared_(memory + plan.prepared_offset_),
      scales_(reinterpret_cast<float*>(memory + plan.scales_offset_)),
      pick_tokens_(reinterpret_cast<std::uint32_t*>(memory + plan.picks_offset_)),
      query_rows_(pick_tokens_ + plan.bucket_.seqs + plan.bucket_.markers),
      positions_(query_rows_ + plan.bucket_.seqs + plan.bucket_.markers) {
}

void Runner::run(float* logits, float* act) {
  index_picks();
  std::size_t longest = 0;
  for (std::size_t s = 0; s < extent_.seqs; ++s) {
    longest = std::max<std::size_t>(longest, batch_.cu[s + 1] - batch_.cu[s]);
  }
  for (const auto& rope : plan_.ropes_) {
    rope->fill(longest);
  }
  if (share_.profile != nullptr) {
    run_profiled(*share_.profile);
  } else {
    for (const Step& step : plan_.steps_) {
      std::visit(*this, step);
    }
  }
  std::copy_n(data(plan_.logits_), extent_.markers, logits);
  std::copy_n(data(plan_.act_), 2 * extent_.seqs, act);
}

void Runner::run_profiled(Profile& profile) const {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  seconds.reserve(plan_.steps_.size());
  auto begin = Clock::now();
  for (const Step& step : plan_.steps_) {
    std::visit(*this, step);
    const auto end = Clock::now();
    seconds.push_back(std::chrono::duration<double>(end - begin).count());
    begin = end;
  }
  profile.add(plan_.ops_, seconds);
}

void Runner::index_picks() const {
  for (std::size_t s = 0; s < extent_.seqs; ++s) {
    const std::uint32_t begin = batch_.cu[s];
    std::size_t at = s + batch_.mcu[s];
    pick_tokens_[s] = batch_.cu[s + 1] == begin ? kNoToken : begin;
    query_rows_[at] = static_cast<std::uint32_t>(s);
    positions_[at] = 0;
    for (std::size_t m = batch_.mcu[s]; m < batch_.mcu[s + 1]; ++m) {
      const std::size_t row = extent_.seqs + m;
      pick_tokens_[row] = begin + batch_.markers[m];
      query_rows_[++at] = static_cast<std::uint32_t>(row);
      positions_[at] = batch_.markers[m];
    }
  }
}

std::size_t Runner::width(std::size_t operations) const {
  if (share_.threads == 1 || operations < 2 * kGrain) {
    return 1;
  }
  const std::size_t fair = share_.threads / std::max<std::size_t>(share_.active.load(std::memory_order_relaxed), 1);
  return std::clamp<std::size_t>(operations / kGrain, 1, std::max<std::size_t>(fair, 1));
}

template <class Fn>
void Runner::split_rows(std::size_t rows, std::size_t operations_each, const Fn& fn) const {
  if (rows == 0) {
    return;
  }
  const std::size_t workers = width(rows * operations_each);
  const std::size_t size = workers == 1 ? rows : std::max(kRowsEach, ceil_div(rows, workers * kChunksEach));
  share_.crew.parallel(workers, ceil_div(rows, size),
                       [&](std::size_t chunk, std::size_t /*worker*/) { fn(chunk * size, std::min(rows, (chunk + 1) * size)); });
}

void Runner::operator()(const EmbedStep& step) const {
  const std::size_t width = step.out.width;
  split_rows(extent_.tokens, 4 * width, [&](std::size_t first, std::size_t last) {
    kernels_.embed(step.table, step.element, batch_.ids.data() + first, last - first, width, data(step.out) + first * width, width);
  });
}

void Runner::operator()(const NormStep& step) const {
  const std::size_t width = step.in.width;
  split_rows(rows(step.in), 16 * width, [&](std::size_t first, std::size_t last) {
    kernels_.layer_norm(data(step.in) + first * width, width, last - first, width, step.weight, step.bias, step.eps,
                        data(step.out) + first * width, width);
  });
}

// Rounds the activations of a narrow gemm, once for all its panels.
void Runner::prepare(const GemmStep& step, std::size_t rows) const {
  const kernels::Narrow& narrow = *step.narrow.kernel;
  const std::size_t k = step.gemm.k;
  const std::size_t bytes = narrow.row_bytes(k);
  split_rows(rows, 16 * k, [&](std::size_t first, std::size_t last) {
    kernels_.prepare(narrow, data(step.in) + first * step.gemm.lda, step.gemm.lda, last - first, k, step.narrow.channels,
                     prepared_ + first * bytes, scales_ + first);
  });
}

void Runner::operator()(const GemmStep& step) const {
  const std::size_t m = rows(step.in);
  if (m == 0) {
    return;
  }
  kernels::Gemm gemm = step.gemm;
  gemm.a = data(step.in);
  gemm.c = data(step.out);
  kernels::NarrowOperands narrow = step.narrow;
  std::size_t tile = kTile;
  std::size_t operations = 2 * m * gemm.n * gemm.k;
  if (narrow.kernel != nullptr) {
    prepare(step, m);
    narrow.a = prepared_;
    narrow.a_scales = scales_;
    tile = narrow.kernel->tile_rows;
    operations /= kNarrowSpeed;
  }
  const auto multiply = [&](std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
    if (narrow.kernel == nullptr) {
      kernels_.gemm(gemm, row0, row1, panel0, panel1);
    } else {
      kernels_.narrow_gemm(narrow, gemm, row0, row1, panel0, panel1);
    }
  };
  const std::size_t panels = kernels::panels(gemm.n);
  const std::size_t workers = width(operations);
  if (workers == 1) {
    multiply(0, m, 0, panels);
    return;
  }
  // By panels first, which share the rows of a among the workers; by rows where there are too few of them.
  const std::size_t wanted = workers * kChunksEach;
  const std::size_t row_blocks = ceil_div(m, kGemmRows);
  const std::size_t panels_each = ceil_div(panels, std::min(panels, ceil_div(wanted, row_blocks)));
  const std::size_t groups = ceil_div(panels, panels_each);
  const std::size_t blocks = std::max(row_blocks, groups < workers ? ceil_div(wanted, groups) : 1);
  const std::size_t rows_each = ceil_div(ceil_div(m, blocks), tile) * tile;
  share_.crew.parallel(workers, groups * ceil_div(m, rows_each), [&](std::size_t chunk, std::size_t /*worker*/) {
    const std::size_t row = chunk / groups * rows_each;
    const std::size_t panel = chunk % groups * panels_each;
    multiply(row, std::min(m, row + rows_each), panel, std::min(panels, panel + panels_each));
  });
}

void Runner::operator()(const AttentionStep& step) const {
  const std::size_t tasks = extent_.seqs * step.heads;
  if (tasks == 0) {
    return;
  }
  // About what the pairs of a short sequence or of a window cost; more only means that there is enough to share.
  const std::size_t workers = width(rows(step.q) * step.out.width * 256);
  std::size_t parts = 1;
  if (workers > 1 && tasks < workers * kChunksEach) {
    parts = std::clamp<std::size_t>(rows(step.q) / extent_.seqs / kQueriesEach, 1, ceil_div(workers * kChunksEach, tasks));
  }
  share_.crew.parallel(workers, tasks * parts, [&](std::size_t chunk, std::size_t worker) {
    const std::size_t task = chunk / parts;
    attend(step, task / step.heads, task % step.heads, chunk % parts, parts, worker);
  });
}

void Runner::attend(const AttentionStep& step, std::size_t seq, std::size_t head, std::size_t part, std::size_t parts,
                    std::size_t worker) const {
  const std::size_t first = batch_.cu[seq];
  const std::size_t column = head * step.attention.head_width;
  kernels::Attention attention = step.attention;
  attention.keys = batch_.cu[seq + 1] - first;
  attention.k = data(step.k) + first * attention.ldk + column;
  attention.v = data(step.v) + first * attention.ldv + column;
  attention.q = data(step.q) + column;
  attention.out = data(step.out) + column;
  if (step.q.rows == Rows::picks) {
    if (attention.keys == 0) {  // its only pick looks at nothing
      std::fill_n(attention.out + seq * attention.ldo, attention.head_width, 0.0F);
      return;
    }
    const std::size_t at = seq + batch_.mcu[seq];
    attention.rows = query_rows_ + at;
    attention.positions = positions_ + at;
    attention.queries = 1 + batch_.mcu[seq + 1] - batch_.mcu[seq];
  } else {
    attention.q += first * attention.ldq;
    attention.out += first * attention.ldo;
    attention.queries = attention.keys;
  }
  attention.scratch = scratch_ + worker * plan_.scratch_floats_;
  const std::size_t query0 = attention.queries * part / parts;
  const std::size_t query1 = attention.queries * (part + 1) / parts;
  if (query0 < query1) {
    kernels_.attention(attention, query0, query1);
  }
}

void Runner::operator()(const PicksStep& step) const {
  const std::size_t width = step.in.width;
  split_rows(rows(step.out), 4 * width, [&](std::size_t first, std::size_t last) {
    for (std::size_t pick = first; pick < last; ++pick) {
      const std::uint32_t token = pick_tokens_[pick];
      float* out = data(step.out) + pick * width;
      if (token == kNoToken) {
        std::fill_n(out, width, 0.0F);
      } else {
        std::memcpy(out, data(step.in) + token * width, width * sizeof(float));
      }
    }
  });
}

void Runner::operator()(const MarkersStep& step) const {
  const std::size_t width = step.in.width;
  split_rows(extent_.markers, 4 * width, [&](std::size_t first, std::size_t last) {
    std::memcpy(data(step.out) + first * width, data(step.in) + (extent_.seqs + first) * width, (last - first) * width * sizeof(float));
  });
}

void Runner::operator()(const TypeStep& step) const {
  const std::size_t width = step.value.width;
  const auto add = [&](std::size_t row, std::size_t seq) {
    kernels_.add(step.table + batch_.qtype[seq] * width, width, data(step.value) + row * width);
  };
  if (step.value.rows == Rows::picks) {
    for (std::size_t s = 0; s < extent_.seqs; ++s) {
      add(s, s);
      for (std::size_t m = batch_.mcu[s]; m < batch_.mcu[s + 1]; ++m) {
        add(extent_.seqs + m, s);
      }
    }
    return;
  }
  split_rows(extent_.tokens, 4 * width, [&](std::size_t first, std::size_t last) {
    auto seq = static_cast<std::size_t>(std::upper_bound(batch_.cu.begin(), batch_.cu.end(), first) - batch_.cu.begin()) - 1;
    for (std::size_t row = first; row < last; ++row) {
      while (row >= batch_.cu[seq + 1]) {
        ++seq;
      }
      add(row, seq);
    }
  });
}

void Runner::operator()(const FeaturesStep& step) const {
  const std::size_t width = step.hidden.width;
  split_rows(extent_.seqs, 4 * width, [&](std::size_t first, std::size_t last) {
    for (std::size_t s = first; s < last; ++s) {
      float* out = data(step.out) + s * step.out.width;
      if (batch_.cu[s + 1] == batch_.cu[s]) {  // no first row: h = 0
        std::fill_n(out, width, 0.0F);
      } else {
        std::memcpy(out, data(step.hidden) + s * width, width * sizeof(float));
      }
      kernels_.act_features(data(step.logits) + batch_.mcu[s], batch_.mcu[s + 1] - batch_.mcu[s], out + width);
    }
  });
}

}  // namespace kime::cpu
