#include "kime/backend/cuda/lowering.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/params_attention.h"
#include "kernels/cuda/params_gemm.h"
#include "kernels/cuda/params_rows.h"
#include "kime/runtime/io_layout.h"

namespace kime::cuda {

namespace {

RowSet row_set(Rows rows) {
  switch (rows) {
    case Rows::tokens:
      return RowSet::tokens;
    case Rows::seqs:
      return RowSet::seqs;
    case Rows::markers:
      return RowSet::markers;
    case Rows::picks:
      break;
  }
  return RowSet::picks;
}

Act act_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return Act::gelu;
    case Activation::relu:
      return Act::relu;
    default:
      return Act::none;
  }
}

// A launch with typed parameters. Pointers are set by member, so that none can be set twice or at a wrong place.
template <class Params>
class Call {
 public:
  static_assert(std::is_trivially_copyable_v<Params>);
  Call(std::string kernel, const Shape& shape) {
    launch_.kernel = std::move(kernel);
    launch_.grid = {shape.grid_x, shape.grid_y};
    launch_.threads = shape.threads;
    launch_.shared_bytes = shape.shared_bytes;
  }

  template <class T>
  Call& point(T* Params::*member, const Ref& to) {
    const auto* begin = reinterpret_cast<const std::byte*>(&params);
    const auto* field = reinterpret_cast<const std::byte*>(&(params.*member));
    launch_.pointers.push_back({static_cast<std::size_t>(field - begin), to});
    return *this;
  }

  [[nodiscard]] KernelLaunch launch() && {
    launch_.params.resize(sizeof(Params));
    std::memcpy(launch_.params.data(), &params, sizeof(Params));
    return std::move(launch_);
  }

  Params params{};

 private:
  KernelLaunch launch_;
};

class Lowering {
 public:
  Lowering(const Graph& graph, const WeightLayout& layout, const BucketCode& code, unsigned processors, const LibraryTakes& library)
      : graph_(graph), layout_(layout), code_(code), inputs_(code.bucket()), processors_(processors), library_(library) {}

  LoweredGraph lower() && {
    index();
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (const LayerNorm* norm = norm_of_embedding(graph_, i)) {
        embed_norm(std::get<Embed>(graph_.ops[i]), *norm);
        ++i;
      } else {
        std::visit(*this, graph_.ops[i]);
      }
    }
    return std::move(lowered_);
  }

  void operator()(const Embed& /*op*/) {}  // BucketCode has refused it

  void operator()(const LayerNorm& op) {
    const PlacedValue& in = code_.value(op.in);
    const PlacedValue& out = code_.value(op.out);
    Call<NormParams> call(std::string("kime_norm_") + kernel_type(out.type), row_shape(code_.most_rows(in.rows)));
    call.point(&NormParams::in, ref(in)).point(&NormParams::out, ref(out)).point(&NormParams::weight, vector(op.weight));
    if (op.bias) {
      call.point(&NormParams::bias, vector(*op.bias));
    }
    call.params.ld_in = in.ld;
    call.params.ld_out = out.ld;
    call.params.width = in.width;
    call.params.eps = op.eps;
    call.params.rows = row_set(in.rows);
    add(call);
  }

  void operator()(const Gemm& op) {
    if (is_linear(op)) {
      linear(op);
      return;
    }
    const WeightMatrix& matrix = layout_.matrix(op);
    const PlacedValue& in = code_.value(op.in);
    const PlacedValue& out = code_.value(op.out);
    if (by_library(op, matrix, in, out)) {
      return;
    }
    const bool full = matrix.type == DType::f32;
    const std::size_t rows = code_.most_rows(in.rows);
    const GemmTile tile = gemm_tile(rows, matrix.rows, processors_);
    Call<GemmParams> call(gemm_name(kernel_type(matrix.type), tile, epilogue(op, matrix.type, out.type)),
                          gemm_shape(tile, full, rows, matrix.rows));
    call.point(&GemmParams::a, operand(in, matrix.type))
        .point(&GemmParams::w, {Region::weights, matrix.offset})
        .point(&GemmParams::c, ref(out));
    if (op.bias) {
      call.point(&GemmParams::bias, vector(*op.bias, op.first));
    }
    call.params.ld_a = static_cast<std::uint32_t>(padded_width(in.width, matrix.type));
    call.params.ld_c = out.ld;
    call.params.n = static_cast<std::uint32_t>(matrix.rows);
    call.params.k = static_cast<std::uint32_t>(matrix.ld);
    call.params.width = op.activation == Activation::geglu ? out.ld : call.params.n;
    call.params.rows = row_set(in.rows);
    add(call);
  }

  void operator()(const Attention& op) {
    const PlacedValue& q = code_.value(op.q);
    const PlacedValue& k = code_.value(op.k);
    const PlacedValue& v = code_.value(op.v);
    const PlacedValue& out = code_.value(op.out);
    const BatchIndex& index = code_.index();
    const bool picks = q.rows == Rows::picks;
    const bool full = q.type == DType::f32;
    const unsigned width = padded_head(op.head_width);
    const std::size_t tiles = attention_tiles(full, code_.most_rows(q.rows), code_.bucket().seqs);
    Call<AttentionParams> call(attention_name(kernel_type(q.type), width), attention_shape(full, width, tiles, op.heads, processors_));
    call.point(&AttentionParams::tiles, {Region::arena, picks ? index.pick_tiles : index.token_tiles})
        .point(&AttentionParams::tile_count, {Region::arena, picks ? index.pick_tile_count : index.token_tile_count})
        .point(&AttentionParams::cu, {Region::inputs, inputs_.cu})
        .point(&AttentionParams::q, ref(q, op.q_column))
        .point(&AttentionParams::k, ref(k, op.k_column))
        .point(&AttentionParams::v, ref(v, op.v_column))
        .point(&AttentionParams::out, ref(out));
    if (picks) {
      call.point(&AttentionParams::mcu, {Region::inputs, inputs_.mcu})
          .point(&AttentionParams::query_rows, {Region::arena, index.query_rows})
          .point(&AttentionParams::query_positions, {Region::arena, index.query_positions});
    }
    if (op.theta) {
      const std::size_t rope = rope_of({*op.theta, op.head_width});
      call.point(&AttentionParams::cosine, {Region::cosine, rope}).point(&AttentionParams::sine, {Region::sine, rope});
    }
    call.params.ld_q = q.ld;
    call.params.ld_k = k.ld;
    call.params.ld_v = v.ld;
    call.params.ld_out = out.ld;
    call.params.heads = op.heads;
    call.params.head_width = op.head_width;
    call.params.reach = op.reach ? *op.reach : kFullReach;
    call.params.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(op.head_width)));
    add(call);
  }

  void operator()(const GatherPicks& op) {
    const PlacedValue& in = code_.value(op.in);
    const PlacedValue& out = code_.value(op.out);
    gather_picks(in, in.type, ref(in), ref(out));
    if (out.twin) {
      gather_picks(in, code_.narrow(), {Region::arena, *in.twin}, {Region::arena, *out.twin});
    }
  }

  void operator()(const GatherMarkers& op) {
    const PlacedValue& in = code_.value(op.in);
    const PlacedValue& out = code_.value(op.out);
    Call<GatherParams> call(std::string("kime_gather_markers_") + kernel_type(in.type), row_shape(code_.most_rows(out.rows)));
    call.point(&GatherParams::in, ref(in)).point(&GatherParams::out, ref(out));
    call.params.ld_in = in.ld;
    call.params.ld_out = out.ld;
    call.params.width = in.width;
    add(call);
  }

  void operator()(const AddType& op) {
    const PlacedValue& value = code_.value(op.value);
    const bool picks = value.rows == Rows::picks;
    Call<AddTypeParams> call("kime_add_type", row_shape(code_.most_rows(value.rows)));
    call.point(&AddTypeParams::seq_of_row, {Region::arena, picks ? code_.index().seq_of_pick : code_.index().seq_of_token})
        .point(&AddTypeParams::qtype, {Region::inputs, inputs_.qtype})
        .point(&AddTypeParams::table, vector(op.table))
        .point(&AddTypeParams::value, ref(value));
    call.params.ld = value.ld;
    call.params.width = value.width;
    call.params.rows = row_set(value.rows);
    add(call);
  }

  void operator()(const ActFeatures& op) {
    const PlacedValue& hidden = code_.value(op.hidden);
    const PlacedValue& out = code_.value(op.out);
    Call<ActFeaturesParams> call("kime_act_features", row_shape(code_.most_rows(out.rows)));
    call.point(&ActFeaturesParams::cu, {Region::inputs, inputs_.cu})
        .point(&ActFeaturesParams::mcu, {Region::inputs, inputs_.mcu})
        .point(&ActFeaturesParams::hidden, ref(hidden))
        .point(&ActFeaturesParams::logits, ref(code_.value(op.logits)))
        .point(&ActFeaturesParams::out, ref(out));
    call.params.ld_hidden = hidden.ld;
    call.params.ld_out = out.ld;
    call.params.width = hidden.width;
    add(call);
  }

 private:
  static GemmEpilogue epilogue(const Gemm& op, DType product, DType out) {
    if (op.accumulate) {
      return GemmEpilogue::add;
    }
    switch (op.activation) {
      case Activation::gelu:
        return GemmEpilogue::gelu;
      case Activation::relu:
        return GemmEpilogue::relu;
      case Activation::geglu:
        return GemmEpilogue::geglu;
      case Activation::none:
        break;
    }
    return product == out ? GemmEpilogue::linear : GemmEpilogue::wide;
  }

  // As a product reads it.
  static Ref operand(const PlacedValue& value, DType type) { return value.type == type ? ref(value) : Ref{Region::arena, *value.twin}; }

  // Gives a product to the library, if that takes it, with what then follows.
  bool by_library(const Gemm& op, const WeightMatrix& matrix, const PlacedValue& in, const PlacedValue& out) {
    if (!library_ || matrix.type == DType::f32 || in.rows != Rows::tokens || op.activation == Activation::geglu ||
        out.type != (op.accumulate ? DType::f32 : matrix.type)) {
      return false;
    }
    const ProductLaunch product{.type = matrix.type,
                                .added = op.accumulate,
                                .n = static_cast<std::uint32_t>(matrix.rows),
                                .k = static_cast<std::uint32_t>(matrix.ld),
                                .ld_a = static_cast<std::uint32_t>(padded_width(in.width, matrix.type)),
                                .ld_c = out.ld,
                                .rows = code_.most_rows(in.rows),
                                .a = operand(in, matrix.type),
                                .w = {Region::weights, matrix.offset},
                                .c = ref(out)};
    if (!library_(product)) {
      return false;
    }
    lowered_.steps.emplace_back(product);
    if (!op.bias && op.activation == Activation::none) {
      return true;
    }
    const std::string type = kernel_type(out.type);
    Call<BiasActParams> call("kime_bias_act_" + type + "_" + type, epilogue_shape(product.rows, product.n));
    call.point(&BiasActParams::in, ref(out)).point(&BiasActParams::out, ref(out));
    if (op.bias) {
      call.point(&BiasActParams::bias, vector(*op.bias, op.first));
    }
    call.params.ld_in = out.ld;
    call.params.ld_out = out.ld;
    call.params.width = product.n;
    call.params.rows = row_set(out.rows);
    call.params.act = act_of(op.activation);
    add(call);
    return true;
  }

  template <class Params>
  void add(Call<Params>& call) {
    if constexpr (requires { call.params.counts; }) {
      call.point(&Params::counts, {Region::arena, code_.index().counts});
    }
    lowered_.steps.emplace_back(std::move(call).launch());
  }

  static Ref ref(const PlacedValue& value, std::size_t column = 0) {
    return {value.in_outputs ? Region::outputs : Region::arena, value.offset + column * size_of(value.type)};
  }
  [[nodiscard]] Ref vector(WeightId weight, std::size_t first = 0) const {
    return {Region::weights, layout_.vector(weight) + first * sizeof(float)};
  }

  std::size_t rope_of(const RopeSpec& spec) {
    const auto found = std::ranges::find(lowered_.ropes, spec);
    if (found != lowered_.ropes.end()) {
      return static_cast<std::size_t>(found - lowered_.ropes.begin());
    }
    lowered_.ropes.push_back(spec);
    return lowered_.ropes.size() - 1;
  }

  // What else is known of a batch once it is there.
  void index() {
    const BatchIndex& index = code_.index();
    Call<IndexParams> call("kime_index", index_shape(code_.bucket().seqs));
    call.point(&IndexParams::cu, {Region::inputs, inputs_.cu})
        .point(&IndexParams::markers, {Region::inputs, inputs_.markers})
        .point(&IndexParams::mcu, {Region::inputs, inputs_.mcu})
        .point(&IndexParams::seq_of_token, {Region::arena, index.seq_of_token})
        .point(&IndexParams::seq_of_pick, {Region::arena, index.seq_of_pick})
        .point(&IndexParams::pick_tokens, {Region::arena, index.pick_tokens})
        .point(&IndexParams::query_rows, {Region::arena, index.query_rows})
        .point(&IndexParams::query_positions, {Region::arena, index.query_positions});
    add(call);
    tiles(false, index.token_tiles, index.token_tile_count);
    tiles(true, index.pick_tiles, index.pick_tile_count);
  }
  void tiles(bool picks, std::size_t table, std::size_t count) {
    Call<AttentionTilesParams> call("kime_attention_tiles", attention_tiles_shape());
    call.point(&AttentionTilesParams::cu, {Region::inputs, inputs_.cu})
        .point(&AttentionTilesParams::tiles, {Region::arena, table})
        .point(&AttentionTilesParams::tile_count, {Region::arena, count});
    if (picks) {
      call.point(&AttentionTilesParams::mcu, {Region::inputs, inputs_.mcu});
    }
    call.params.queries_each = attention_queries(code_.narrow() == DType::f32);
    add(call);
  }

  void embed_norm(const Embed& embed, const LayerNorm& norm) {
    const PlacedValue& out = code_.value(embed.out);
    const DType narrow = out.twin ? code_.narrow() : DType::f32;
    Call<EmbedNormParams> call(std::string("kime_embed_norm_") + kernel_type(layout_.table_type(embed.table)) + "_" + kernel_type(narrow),
                               row_shape(code_.bucket().tokens));
    call.point(&EmbedNormParams::ids, {Region::inputs, inputs_.ids})
        .point(&EmbedNormParams::table, {Region::weights, layout_.table(embed.table)})
        .point(&EmbedNormParams::weight, vector(norm.weight))
        .point(&EmbedNormParams::stream, ref(out));
    if (norm.bias) {
      call.point(&EmbedNormParams::bias, vector(*norm.bias));
    }
    if (out.twin) {
      call.point(&EmbedNormParams::narrow, {Region::arena, *out.twin});
    }
    call.params.width = out.width;
    call.params.eps = norm.eps;
    add(call);
  }

  void linear(const Gemm& op) {
    const PlacedValue& in = code_.value(op.in);
    const PlacedValue& out = code_.value(op.out);
    Call<LinearParams> call("kime_linear_f32", linear_shape(code_.most_rows(in.rows), op.count));
    call.point(&LinearParams::in, ref(in))
        .point(&LinearParams::weight, {Region::weights, layout_.matrix(op).offset})
        .point(&LinearParams::out, ref(out));
    if (op.bias) {
      call.point(&LinearParams::bias, vector(*op.bias, op.first));
    }
    call.params.ld_in = in.ld;
    call.params.ld_out = out.ld;
    call.params.inputs = in.width;
    call.params.outputs = op.count;
    call.params.rows = row_set(in.rows);
    call.params.act = act_of(op.activation);
    add(call);
  }

  void gather_picks(const PlacedValue& value, DType type, const Ref& from, const Ref& to) {
    Call<GatherParams> call(std::string("kime_gather_picks_") + kernel_type(type), row_shape(code_.most_rows(Rows::picks)));
    call.point(&GatherParams::pick_tokens, {Region::arena, code_.index().pick_tokens})
        .point(&GatherParams::in, from)
        .point(&GatherParams::out, to);
    call.params.ld_in = static_cast<std::uint32_t>(padded_width(value.width, type));
    call.params.ld_out = call.params.ld_in;
    call.params.width = value.width;
    add(call);
  }

  const Graph& graph_;
  const WeightLayout& layout_;
  const BucketCode& code_;
  BatchLayout inputs_;
  unsigned processors_;
  const LibraryTakes& library_;
  LoweredGraph lowered_;
};

}  // namespace

LoweredGraph lower(const Graph& graph, const WeightLayout& layout, const BucketCode& code, unsigned processors,
                   const LibraryTakes& library) {
  return Lowering(graph, layout, code, processors, library).lower();
}

KernelLaunch set_counts(const BucketCode& code, const Extent& counts) {
  Call<SetCountsParams> call("kime_set_counts", {});
  call.point(&SetCountsParams::to, {Region::arena, code.index().counts});
  call.params.counts = {static_cast<std::uint32_t>(counts.tokens), static_cast<std::uint32_t>(counts.seqs),
                        static_cast<std::uint32_t>(counts.markers)};
  return std::move(call).launch();
}

}  // namespace kime::cuda
