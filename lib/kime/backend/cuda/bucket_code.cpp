#include "kime/backend/cuda/bucket_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/cuda/params_attention.h"
#include "kime/backend/cuda/slab.h"
#include "kime/backend/cuda/weights.h"
#include "kime/runtime/io_layout.h"

namespace kime::cuda {

namespace {

Error unsupported(const std::string& what) {
  return {ErrorKind::unsupported, what + " on CUDA devices"};
}

}  // namespace

const LayerNorm* norm_of_embedding(const Graph& graph, std::size_t op) {
  const auto* embed = std::get_if<Embed>(&graph.ops[op]);
  const auto* norm = embed == nullptr || op + 1 == graph.ops.size() ? nullptr : std::get_if<LayerNorm>(&graph.ops[op + 1]);
  return norm != nullptr && norm->in == embed->out && norm->out == embed->out ? norm : nullptr;
}

class BucketCodeMaker {
 public:
  BucketCodeMaker(const Graph& graph, const Bucket& bucket)
      : graph_(graph), wide_(graph.values.size(), false), twinned_(graph.values.size(), false), twins_(graph.values.size()) {
    code_.bucket_ = bucket;
  }

  Result<BucketCode> make() && {
    if (auto checked = check(); !checked) {
      return std::move(checked).error();
    }
    find_wide();
    if (auto checked = check_types(); !checked) {
      return std::move(checked).error();
    }
    if (auto found = find_twins(); !found) {
      return std::move(found).error();
    }
    place_values();
    place_index();
    const ArenaPlan plan = plan_blocks(blocks_, kSlabAlignment);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      *places_[i] = plan.offsets[i];
    }
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if (twinned_[id]) {
        code_.values_[id].twin = twins_[id].offset;
      }
    }
    code_.arena_bytes_ = plan.bytes;
    return std::move(code_);
  }

 private:
  struct Twin {
    LiveRange life;
    std::size_t offset = 0;
  };

  // Sizes, and the one narrow element type.
  Status check() {
    const Bucket& bucket = code_.bucket_;
    constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max() / 2;
    if (bucket.tokens > kMost || bucket.seqs > kMost || bucket.markers > kMost) {
      return unsupported(fmt::format("a bucket of {} tokens, {} sequences and {} markers", bucket.tokens, bucket.seqs, bucket.markers));
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      if (std::holds_alternative<Embed>(op) && norm_of_embedding(graph_, i) == nullptr) {
        return unsupported("an embedding without a norm");
      }
      if (const auto* gemm = std::get_if<Gemm>(&op)) {
        const auto type = element_of(gemm->precision);
        if (!type || (*type != DType::f32 && code_.narrow_ != DType::f32 && *type != code_.narrow_)) {
          return unsupported(fmt::format("precision {}{}", name_of(gemm->precision), type ? " beside another" : ""));
        }
        code_.narrow_ = *type == DType::f32 ? code_.narrow_ : *type;
        if (gemm->activation == Activation::geglu && gemm->bias) {
          return unsupported("a GEGLU with a bias");
        }
        if (gemm->accumulate && gemm->activation != Activation::none) {
          return unsupported("an activation that is added to a residual stream");
        }
      } else if (const auto* attention = std::get_if<Attention>(&op); attention != nullptr && padded_head(attention->head_width) == 0) {
        return unsupported(fmt::format("attention heads {} wide (multiples of 8 up to {})", attention->head_width, kWidestHead));
      }
    }
    return {};
  }

  // What is float32 whatever the products' type.
  void find_wide() {
    for (const Op& op : graph_.ops) {
      std::visit([this](const auto& each) { mark_wide(each); }, op);
    }
    for (bool changed = true; changed;) {  // a gather moves rows as they are
      changed = false;
      for (const Op& op : graph_.ops) {
        if (const auto* gather = std::get_if<GatherPicks>(&op); gather != nullptr && wide_[gather->in] != wide_[gather->out]) {
          wide_[gather->in] = wide_[gather->out] = true;
          changed = true;
        }
      }
    }
  }
  void mark_wide(const Embed& op) { wide_[op.out] = true; }
  void mark_wide(const LayerNorm& op) { wide_[op.in] = true; }
  void mark_wide(const Gemm& op) {
    if (op.precision == Precision::f32 && code_.narrow_ != DType::f32) {
      wide_[op.in] = wide_[op.out] = true;
    }
    wide_[op.out] = wide_[op.out] || op.accumulate;
  }
  void mark_wide(const Attention& /*op*/) {}
  void mark_wide(const GatherPicks& /*op*/) {}
  void mark_wide(const GatherMarkers& op) { wide_[op.in] = wide_[op.out] = true; }
  void mark_wide(const AddType& op) { wide_[op.value] = true; }
  void mark_wide(const ActFeatures& op) { wide_[op.hidden] = wide_[op.logits] = wide_[op.out] = true; }

  // What the kernels have no form of.
  Status check_types() const {
    std::vector<bool> filled_up(graph_.values.size(), false);  // with zeros behind its rows
    const auto is_wide = [this](ValueId id) { return code_.narrow_ != DType::f32 && wide_[id]; };
    for (const Op& op : graph_.ops) {
      if (const auto* gemm = std::get_if<Gemm>(&op)) {
        const std::size_t width = graph_.values[gemm->in].width;
        if (!is_linear(*gemm) && !filled_up[gemm->in] && width != padded_width(width, *element_of(gemm->precision))) {
          return unsupported(fmt::format("products over {} elements", width));
        }
        filled_up[gemm->out] = !is_linear(*gemm) && !gemm->accumulate;
        if (gemm->precision != Precision::f32 && !gemm->accumulate && is_wide(gemm->out) &&
            (gemm->activation != Activation::none || gemm->count != padded_width(gemm->count, code_.narrow_))) {
          return unsupported(fmt::format("a narrow product whose result is float32, {} wide", gemm->count));
        }
      } else if (const auto* attention = std::get_if<Attention>(&op)) {
        if (is_wide(attention->q) || is_wide(attention->k) || is_wide(attention->v) || is_wide(attention->out)) {
          return unsupported("attention over float32 beside narrow products");
        }
      }
    }
    return {};
  }

  // Wide values that narrow products read: their narrow twins are made by what makes them, and hold until they change.
  Status find_twins() {
    if (code_.narrow_ == DType::f32) {
      return {};
    }
    for (std::size_t at = graph_.ops.size(); at-- > 0;) {
      if (const auto* gemm = std::get_if<Gemm>(&graph_.ops[at]); gemm != nullptr && gemm->precision != Precision::f32) {
        need_twin(gemm->in, at);
      } else if (const auto* gather = std::get_if<GatherPicks>(&graph_.ops[at]); gather != nullptr && twinned_[gather->out]) {
        need_twin(gather->in, at);
      }
    }
    std::vector<bool> holds(graph_.values.size(), false);
    for (std::size_t at = 0; at < graph_.ops.size(); ++at) {
      const Op& op = graph_.ops[at];
      const Uses used = uses(op);
      const auto* gemm = std::get_if<Gemm>(&op);
      const auto* gather = std::get_if<GatherPicks>(&op);
      const bool narrow = (gemm != nullptr && gemm->precision != Precision::f32) || (gather != nullptr && twinned_[gather->out]);
      if (narrow && twinned_[used.reads[0]] && !holds[used.reads[0]]) {
        return unsupported(fmt::format("a product of value {} after it has changed", used.reads[0]));
      }
      const bool embeds = at > 0 && norm_of_embedding(graph_, at - 1) != nullptr;
      holds[used.writes] = embeds || gather != nullptr;
      if (holds[used.writes]) {
        twins_[used.writes].life.first = embeds ? at - 1 : at;
      }
    }
    return {};
  }
  void need_twin(ValueId id, std::size_t at) {
    if (wide_[id]) {
      twins_[id].life.last = std::max(twins_[id].life.last, at);
      twinned_[id] = true;
    }
  }

  void take(std::size_t* place, LiveRange life, std::size_t bytes) {
    places_.push_back(place);
    blocks_.push_back({life, bytes});
  }

  void place_values() {
    const ScoreLayout scores(code_.bucket_);
    const std::vector<LiveRange> lives = live_ranges(graph_);
    code_.values_.resize(graph_.values.size());
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_.values[id];
      PlacedValue& placed = code_.values_[id];
      placed.rows = value.rows;
      placed.width = value.width;
      placed.type = wide_[id] ? DType::f32 : code_.narrow_;
      placed.ld = static_cast<std::uint32_t>(padded_width(value.width, placed.type));
      if (id == graph_.logits || id == graph_.act) {
        placed.in_outputs = true;
        placed.ld = value.width;
        placed.offset = id == graph_.logits ? scores.logits : scores.act;
        continue;
      }
      const std::size_t rows = code_.most_rows(value.rows);
      take(&placed.offset, lives[id], rows * placed.ld * size_of(placed.type));
      if (twinned_[id]) {
        take(&twins_[id].offset, twins_[id].life, rows * padded_width(value.width, code_.narrow_) * size_of(code_.narrow_));
      }
    }
  }

  void place_index() {
    const LiveRange always{0, graph_.ops.empty() ? 0 : graph_.ops.size() - 1};
    const auto words = [&](std::size_t& place, std::size_t count) { take(&place, always, count * sizeof(std::uint32_t)); };
    const bool full = code_.narrow_ == DType::f32;
    const std::size_t tokens = code_.bucket_.tokens;
    const std::size_t seqs = code_.bucket_.seqs;
    const std::size_t picks = code_.most_rows(Rows::picks);
    BatchIndex& index = code_.index_;
    take(&index.counts, always, sizeof(Counts));
    words(index.seq_of_token, tokens);
    words(index.seq_of_pick, picks);
    words(index.pick_tokens, picks);
    words(index.query_rows, picks);
    words(index.query_positions, picks);
    take(&index.token_tiles, always, attention_tiles(full, tokens, seqs) * sizeof(AttentionTile));
    words(index.token_tile_count, 1);
    take(&index.pick_tiles, always, attention_tiles(full, picks, seqs) * sizeof(AttentionTile));
    words(index.pick_tile_count, 1);
  }

  const Graph& graph_;
  BucketCode code_;
  std::vector<bool> wide_;
  std::vector<bool> twinned_;
  std::vector<Twin> twins_;
  std::vector<ArenaBlock> blocks_;
  std::vector<std::size_t*> places_;  ///< Of each block, where its offset goes.
};

Result<BucketCode> BucketCode::compile(const Graph& graph, const Bucket& bucket) {
  return BucketCodeMaker(graph, bucket).make();
}

}  // namespace kime::cuda
