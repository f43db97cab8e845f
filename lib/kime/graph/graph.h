// A model as a flat list of ops over values. Nothing here knows a batch size or a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kime/base/precision.h"

namespace kime {

/// What a value has one row of. `picks` are the rows that the heads look at: the first token of each sequence, in order, then the
/// token of each marker in batch order; seqs + markers rows in all.
enum class Rows : std::uint8_t { tokens, seqs, markers, picks };

/// A row-major float32 matrix: so many rows times `width` columns.
struct Value {
  Rows rows = Rows::tokens;
  std::uint32_t width = 0;
};

using ValueId = std::uint32_t;
using WeightId = std::uint32_t;

/// A weight by its checkpoint name; a backend gets its tensors in the order of Graph::weights.
struct Weight {
  std::string name;
  std::vector<std::size_t> shape;
};

/// out[t] = table[ids[t]].
struct Embed {
  WeightId table = 0;
  ValueId out = 0;
};

/// out = (in - mean) / sqrt(variance + eps) * weight + bias, over each row (Ba et al. 2016). May run in place.
struct LayerNorm {
  ValueId in = 0;
  WeightId weight = 0;
  std::optional<WeightId> bias;
  float eps = 1e-5F;
  ValueId out = 0;
};

/// What a gemm applies after the bias. gelu is the exact one, x (1 + erf(x / sqrt 2)) / 2. With geglu the weight's rows are [a; g],
/// the output is half as wide, gelu(a) * g.
enum class Activation : std::uint8_t { none, gelu, relu, geglu };

/// out = activation(in W^T + bias), or out += that with `accumulate`. W is rows [first, first + count) of a weight [.., in.width].
struct Gemm {
  ValueId in = 0;
  WeightId weight = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::optional<WeightId> bias;  ///< Entries [first, first + count) of it.
  Activation activation = Activation::none;
  bool accumulate = false;
  ValueId out = 0;
  Precision precision = Precision::f32;
};

/// softmax(rope(q) rope(k)^T / sqrt(head_width)) v within each sequence and head. q, k and v are columns from q_column (k_column,
/// v_column) of their values, head h at h * head_width further on. k and v have rows `tokens`; q and out have `tokens` or `picks`.
struct Attention {
  ValueId q = 0;
  ValueId k = 0;
  ValueId v = 0;
  std::uint32_t q_column = 0;
  std::uint32_t k_column = 0;
  std::uint32_t v_column = 0;
  std::uint32_t heads = 0;
  std::uint32_t head_width = 0;
  std::optional<std::uint32_t> reach;  ///< Key j is seen by query i when |i - j| <= reach; every key of the sequence without it.
  std::optional<float> theta;          ///< The base of the rotary embedding (Su et al. 2021, halves rotated); none without it.
  ValueId out = 0;
};

/// out[row] = in[the token of that pick]; `in` has rows tokens, `out` rows picks. The first row of an empty sequence is 0.
struct GatherPicks {
  ValueId in = 0;
  ValueId out = 0;
};

/// out[m] = in[the pick of marker m]; `in` has rows picks, `out` rows markers.
struct GatherMarkers {
  ValueId in = 0;
  ValueId out = 0;
};

/// value[row] += table[question type of the row's sequence], in place, for rows tokens or picks.
struct AddType {
  WeightId table = 0;
  ValueId value = 0;
};

/// out[s] = [hidden[first row of s], p1, p1 - p2, H / ln k', k' / 255] as the design's section 6 says; out.width = hidden.width + 4.
struct ActFeatures {
  ValueId hidden = 0;  ///< Rows picks.
  ValueId logits = 0;  ///< Rows markers, width 1.
  ValueId out = 0;     ///< Rows seqs.
};

using Op = std::variant<Embed, LayerNorm, Gemm, Attention, GatherPicks, GatherMarkers, AddType, ActFeatures>;

/// The whole model. Ops run in order; each reads values that an earlier one wrote.
struct Graph {
  std::vector<Weight> weights;
  std::vector<Value> values;
  std::vector<Op> ops;
  ValueId logits = 0;  ///< Rows markers, width 1.
  ValueId act = 0;     ///< Rows seqs, width 2.
};

/// What one op touches, for planners and printers: the values it reads and the one that it writes (which it also reads when
/// `in_place`).
struct Uses {
  std::vector<ValueId> reads;
  ValueId writes = 0;
  bool in_place = false;
};
[[nodiscard]] Uses uses(const Op& op);

}  // namespace kime
