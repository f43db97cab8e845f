// Attention of one head of one sequence in one pass over the keys: no matrix of scores in memory, a running maximum and sum a row.
//
// The steps of a row, whatever rows it shares a tile with. Keys come in blocks of kKeyBlock from the sequence's first token; a block is
// left out for a row that sees none of its keys.
//   1. s[j] = the chain of q[i] k[j][i] over the head width, both after rope, q also times the scale
//   2. m' = the larger of m and the visible s[j];  sum[l] and out[c] are multiplied by exp(m - m'), which is 1 where they are equal
//   3. p[j] = exp(s[j] - m'), +0 where j is masked;  sum[j mod 16] += p[j], keys ascending
//   4. out[c] = the chain of p[j] v[j][c] over the visible keys, ascending, going on from the blocks before
// At the end out[c] * (1 / Sum16(sum)). A masked key is never multiplied: what its k and v hold, NaN too, does not matter.
#if defined(KIME_KERNELS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_ATTENTION_INL_H_
#undef KIME_KERNELS_CPU_ATTENTION_INL_H_
#else
#define KIME_KERNELS_CPU_ATTENTION_INL_H_
#endif

#include <cstddef>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/simd16-inl.h"
#include "kernels/cpu/tile-inl.h"
#include "kernels/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kMaxHead = 128;
// Queries that pass over the keys together, so that a block of keys is read once for all of them.
inline constexpr std::size_t kGroupTiles = 8;
inline constexpr std::size_t kGroupRows = kGroupTiles * kTileRows;

struct KeyRange {
  std::size_t begin;
  std::size_t end;
};

// What a group of queries carries from block to block.
struct QueryGroup {
  std::size_t rows;
  KeyRange visible[kGroupRows];
  float max[kGroupRows];
  HWY_ALIGN float q[kGroupRows * kMaxHead];       // [row][head_width]
  HWY_ALIGN float out[kGroupRows * kMaxHead];     // [row][value width]
  HWY_ALIGN float sum[kGroupRows * 16];           // [row][virtual lane]
  HWY_ALIGN float scores[kTileRows * kKeyBlock];  // of the tile and block at hand
};

HWY_INLINE std::size_t ValueWidth(const Attention& a) {
  return (a.head_width + 15) / 16 * 16;
}
HWY_INLINE std::size_t KeyBlocks(const Attention& a) {
  return (a.keys + kKeyBlock - 1) / kKeyBlock;
}
HWY_INLINE float* KeyPanel(const Attention& a, std::size_t block) {
  return a.scratch + block * kKeyBlock * a.head_width;
}
HWY_INLINE float* ValuePanel(const Attention& a, std::size_t block) {
  return a.scratch + KeyBlocks(a) * kKeyBlock * a.head_width + block * kKeyBlock * ValueWidth(a);
}

HWY_INLINE std::size_t RowOf(const Attention& a, std::size_t query) {
  return a.rows == nullptr ? query : a.rows[query];
}
HWY_INLINE std::size_t PositionOf(const Attention& a, std::size_t query) {
  return a.positions == nullptr ? query : a.positions[query];
}
HWY_INLINE KeyRange VisibleKeys(const Attention& a, std::size_t position) {
  return {position > a.reach ? position - a.reach : 0, a.reach >= a.keys - position ? a.keys : position + a.reach + 1};
}

// A head's row after rope: low half lo cos - hi sin, as fma(hi, -sin, lo cos); high half hi cos + lo sin, as fma(hi, cos, lo sin).
inline void RopeRow(const Attention& a, const float* in, std::size_t position, float* out) {
  const std::size_t half = a.head_width / 2;
  for (std::size_t i = 0; i < half; i += 16) {
    const std::size_t n = half - i;
    const F16 lo = LoadN16(in + i, n);
    const F16 hi = LoadN16(in + half + i, n);
    if (a.cosine == nullptr) {
      StoreN16(lo, out + i, n);
      StoreN16(hi, out + half + i, n);
      continue;
    }
    const F16 cosine = LoadN16(a.cosine + position * half + i, n);
    const F16 sine = LoadN16(a.sine + position * half + i, n);
    StoreN16(MulAdd(hi, Sub(Zero16(), sine), Mul(lo, cosine)), out + i, n);
    StoreN16(MulAdd(hi, cosine, Mul(lo, sine)), out + half + i, n);
  }
}

// Rows that lie a whole batch's width apart: each is on a page of its own, where no hardware looks ahead. This many rows ahead they are
// asked for.
inline constexpr std::size_t kRowsAhead = 12;
HWY_INLINE void AskForRow(const float* row, std::size_t width) {
  for (std::size_t i = 0; i < width; i += 16) {
    __builtin_prefetch(row + i, 0, 3);
  }
}

// A block's keys as a panel [head_width][kKeyBlock] and its values as [kKeyBlock][value width]. Columns that no key fills are zero as far
// as the last vector that has a key: they are computed with, and thrown away.
inline void PrepareBlock(const Attention& a, std::size_t block) {
  HWY_ALIGN float rows[16 * kMaxHead];
  float* panel = KeyPanel(a, block);
  float* value = ValuePanel(a, block);
  const std::size_t width = ValueWidth(a);
  for (std::size_t group = 0; group < kKeyBlock && block * kKeyBlock + group < a.keys; group += 16) {
    for (std::size_t r = 0; r < 16; ++r) {
      const std::size_t key = block * kKeyBlock + group + r;
      if (key >= a.keys) {
        for (std::size_t i = 0; i < a.head_width; ++i) {
          rows[r * kMaxHead + i] = 0.0F;
        }
        continue;
      }
      if (key + kRowsAhead < a.keys) {
        AskForRow(a.k + (key + kRowsAhead) * a.ldk, a.head_width);
        AskForRow(a.v + (key + kRowsAhead) * a.ldv, a.head_width);
      }
      RopeRow(a, a.k + key * a.ldk, key, rows + r * kMaxHead);
      for (std::size_t i = 0; i < a.head_width; i += 16) {
        Store16(LoadN16(a.v + key * a.ldv + i, a.head_width - i), value + (group + r) * width + i);
      }
    }
    for (std::size_t i = 0; i < a.head_width; i += 4) {
      Transpose16x4(rows + i, kMaxHead, panel + i * kKeyBlock + group, kKeyBlock);
    }
  }
}

// Queries [query0, query0 + group.rows), before any key. Their rows of the output are asked for too: they are written soon.
inline void StartGroup(const Attention& a, std::size_t query0, QueryGroup& group) {
  const F16 scale = Set16(a.scale);
  for (std::size_t r = 0; r < group.rows; ++r) {
    const std::size_t position = PositionOf(a, query0 + r);
    float* q = group.q + r * a.head_width;
    if (r + kRowsAhead < group.rows) {
      AskForRow(a.q + RowOf(a, query0 + r + kRowsAhead) * a.ldq, a.head_width);
    }
    for (std::size_t i = 0; i < a.head_width; i += 16) {
      __builtin_prefetch(a.out + RowOf(a, query0 + r) * a.ldo + i, 1, 3);
    }
    RopeRow(a, a.q + RowOf(a, query0 + r) * a.ldq, position, q);
    for (std::size_t i = 0; i < a.head_width; i += 16) {
      StoreN16(Mul(LoadN16(q + i, a.head_width - i), scale), q + i, a.head_width - i);
    }
    group.visible[r] = VisibleKeys(a, position);
    group.max[r] = -__builtin_inff();
    Store16(Zero16(), group.sum + r * 16);
    for (std::size_t i = 0; i < ValueWidth(a); i += 16) {
      Store16(Zero16(), group.out + r * ValueWidth(a) + i);
    }
  }
}

// Which of the 16 keys from `first` are in the range, as the scores they keep; -inf in the others.
HWY_INLINE F16 MaskScores(F16 s, std::size_t first, const KeyRange& range) {
  HWY_ALIGN static constexpr float kIndex[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  if (first >= range.begin && first + 16 <= range.end) {
    return s;
  }
  const F16 index = Add(Load16(kIndex), Set16(static_cast<float>(first)));
  const F16 masked = Set16(-__builtin_inff());
  s = Select(Less(index, Set16(static_cast<float>(range.begin))), masked, s);
  return Select(Less(index, Set16(static_cast<float>(range.end))), s, masked);
}

// A row's scores, masked, and the largest of them and `max`.
HWY_INLINE float MaskRow(float* scores, const KeyRange& range, float max) {
  F16 largest = Set16(max);
  for (std::size_t i = range.begin / 16 * 16; i < range.end; i += 16) {
    const F16 s = MaskScores(Load16(scores + i), i, range);
    Store16(s, scores + i);
    largest = Max(largest, s);
  }
  return MaxLanes16(largest);
}

// Step 3 of a row, and what step 2 does to its sums.
HWY_INLINE void WeighRow(QueryGroup& group, std::size_t row, float* scores, const KeyRange& range, float decay, std::size_t value_width) {
  const F16 max = Set16(group.max[row]);
  F16 sum = Mul(Load16(group.sum + row * 16), Set16(decay));
  for (std::size_t i = range.begin / 16 * 16; i < range.end; i += 16) {
    const F16 p = Exp(Sub(Load16(scores + i), max));
    Store16(p, scores + i);
    sum = Add(sum, p);
  }
  Store16(sum, group.sum + row * 16);
  float* out = group.out + row * value_width;
  for (std::size_t i = 0; i < value_width; i += 16) {
    Store16(Mul(Load16(out + i), Set16(decay)), out + i);
  }
}

// Steps 2 and 3 of a tile: its scores become its weights. Step by step over all rows, since one row's steps wait for each other.
inline void WeighTile(QueryGroup& group, std::size_t row0, std::size_t rows, const KeyRange* range, std::size_t value_width) {
  HWY_ALIGN float decay[16] = {};
  for (std::size_t r = 0; r < rows; ++r) {
    if (range[r].begin < range[r].end) {
      const float max = MaskRow(group.scores + r * kKeyBlock, range[r], group.max[row0 + r]);
      decay[r] = group.max[row0 + r] - max;
      group.max[row0 + r] = max;
    }
  }
  Store16(Exp(Load16(decay)), decay);
  for (std::size_t r = 0; r < rows; ++r) {
    if (range[r].begin < range[r].end) {
      WeighRow(group, row0 + r, group.scores + r * kKeyBlock, range[r], decay[r], value_width);
    }
  }
}

// Step 4 of `rows` rows that all see the keys [begin, end) of the block.
HWY_INLINE void WeighValues(const Attention& a, QueryGroup& group, std::size_t row, std::size_t rows, const float* scores,
                            std::size_t block, const KeyRange& keys) {
  const std::size_t width = ValueWidth(a);
  if (keys.begin < keys.end) {
    WideTile(rows, width / 16,
             {scores + keys.begin, kKeyBlock, ValuePanel(a, block) + keys.begin * width, width, keys.end - keys.begin,
              group.out + row * width, width, true});
  }
}

// One tile of queries and one block of keys. Rows go together over the keys that all of them see, and alone over the few before and after.
inline void AttendTile(const Attention& a, QueryGroup& group, std::size_t row0, std::size_t rows, std::size_t block) {
  const std::size_t key0 = block * kKeyBlock;
  KeyRange range[kTileRows];
  KeyRange any = {kKeyBlock, 0};
  KeyRange all = {0, kKeyBlock};
  for (std::size_t r = 0; r < rows; ++r) {
    const KeyRange& visible = group.visible[row0 + r];
    range[r].begin = visible.begin <= key0 ? 0 : visible.begin - key0 < kKeyBlock ? visible.begin - key0 : kKeyBlock;
    range[r].end = visible.end <= key0 ? 0 : visible.end - key0 < kKeyBlock ? visible.end - key0 : kKeyBlock;
    if (range[r].begin < range[r].end) {
      any.begin = range[r].begin < any.begin ? range[r].begin : any.begin;
      any.end = range[r].end > any.end ? range[r].end : any.end;
    }
    all.begin = range[r].begin > all.begin ? range[r].begin : all.begin;
    all.end = range[r].end < all.end ? range[r].end : all.end;
  }
  if (any.begin >= any.end) {
    return;
  }
  const std::size_t vec0 = any.begin / 16;
  WideTile(rows, (any.end + 15) / 16 - vec0,
           {group.q + row0 * a.head_width, a.head_width, KeyPanel(a, block) + vec0 * 16, kKeyBlock, a.head_width, group.scores + vec0 * 16,
            kKeyBlock, false});
  if (all.begin >= all.end) {
    all = {kKeyBlock, kKeyBlock};
  }
  WeighTile(group, row0, rows, range, ValueWidth(a));
  for (std::size_t r = 0; r < rows && all.begin > 0; ++r) {
    const std::size_t end = range[r].end < all.begin ? range[r].end : all.begin;
    WeighValues(a, group, row0 + r, 1, group.scores + r * kKeyBlock, block, {range[r].begin, end});
  }
  WeighValues(a, group, row0, rows, group.scores, block, all);
  for (std::size_t r = 0; r < rows && all.end < kKeyBlock; ++r) {
    WeighValues(a, group, row0 + r, 1, group.scores + r * kKeyBlock, block, {all.end, range[r].end});
  }
}

inline void FinishGroup(const Attention& a, const QueryGroup& group, std::size_t query0) {
  for (std::size_t r = 0; r < group.rows; ++r) {
    const F16 share = Set16(1.0F / Sum16(Load16(group.sum + r * 16)));
    float* out = a.out + RowOf(a, query0 + r) * a.ldo;
    for (std::size_t i = 0; i < a.head_width; i += 16) {
      StoreN16(Mul(Load16(group.out + r * ValueWidth(a) + i), share), out + i, a.head_width - i);
    }
  }
}

// The blocks that any of the queries [query0, query1) sees.
inline KeyRange SeenBlocks(const Attention& a, std::size_t query0, std::size_t query1) {
  KeyRange keys = {a.keys, 0};
  for (std::size_t query = query0; query < query1; ++query) {
    const KeyRange visible = VisibleKeys(a, PositionOf(a, query));
    keys.begin = visible.begin < keys.begin ? visible.begin : keys.begin;
    keys.end = visible.end > keys.end ? visible.end : keys.end;
  }
  return {keys.begin / kKeyBlock, (keys.end + kKeyBlock - 1) / kKeyBlock};
}

// Prepares what is still missing of the blocks, keeping the prepared ones in one piece. Just before they are needed, so that a window
// over a long sequence finds them in a near cache.
inline void PrepareBlocks(const Attention& a, const KeyRange& blocks, KeyRange& prepared) {
  if (prepared.begin == prepared.end) {
    prepared = {blocks.begin, blocks.begin};
  }
  while (prepared.end < blocks.end) {
    PrepareBlock(a, prepared.end++);
  }
  while (prepared.begin > blocks.begin) {
    PrepareBlock(a, --prepared.begin);
  }
}

inline void Attend(const Attention& a, std::size_t query0, std::size_t query1) {
  KeyRange prepared = {0, 0};
  QueryGroup group;
  for (std::size_t query = query0; query < query1; query += kGroupRows) {
    group.rows = query1 - query < kGroupRows ? query1 - query : kGroupRows;
    StartGroup(a, query, group);
    const KeyRange blocks = SeenBlocks(a, query, query + group.rows);
    PrepareBlocks(a, blocks, prepared);
    for (std::size_t block = blocks.begin; block < blocks.end; ++block) {
      for (std::size_t row = 0; row < group.rows; row += kTileRows) {
        AttendTile(a, group, row, group.rows - row < kTileRows ? group.rows - row : kTileRows, block);
      }
    }
    FinishGroup(a, group, query);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_ATTENTION_INL_H_
