#include "kime/graph/builder.h"

#include <map>
#include <string>
#include <string_view>

namespace kime {

namespace {

// What tells one layer's attention from another's.
struct AttentionSpec {
  std::size_t heads = 0;
  std::optional<std::uint32_t> reach;
  std::optional<float> theta;
};

class Builder {
 public:
  Builder(const ModelConfig& config, Precision precision)
      : config_(config), precision_(precision), width_(static_cast<std::uint32_t>(config.hidden)) {
    for (auto& spec : expected_tensors(config)) {
      ids_.emplace(spec.name, static_cast<WeightId>(graph_.weights.size()));
      graph_.weights.push_back({std::move(spec.name), std::move(spec.shape)});
    }
  }

  Graph build() && {
    hidden_ = value(Rows::tokens, width_);
    graph_.ops.emplace_back(Embed{weight("encoder.embeddings.tok_embeddings.weight"), hidden_});
    norm(hidden_, "encoder.embeddings.norm", config_.norm_eps, false, hidden_);
    for (std::size_t i = 0; i < config_.layers.size(); ++i) {
      encoder_layer(i, config_.head_layers == 0 && i + 1 == config_.layers.size());
    }
    norm(hidden_, "encoder.final_norm", config_.norm_eps, false, hidden_);
    graph_.ops.emplace_back(AddType{weight("type_emb.weight"), hidden_});
    for (std::size_t i = 0; i < config_.head_layers; ++i) {
      head_layer(i, i + 1 == config_.head_layers);
    }
    precision_ = Precision::f32;
    scorer();
    act_head();
    return std::move(graph_);
  }

 private:
  ValueId value(Rows rows, std::uint32_t width) {
    graph_.values.push_back({rows, width});
    return static_cast<ValueId>(graph_.values.size() - 1);
  }
  [[nodiscard]] WeightId weight(const std::string& name) const { return ids_.find(name)->second; }
  [[nodiscard]] Rows rows(ValueId id) const { return graph_.values[id].rows; }

  void norm(ValueId in, const std::string& name, float eps, bool biased, ValueId out) {
    LayerNorm op{in, weight(name + ".weight"), std::nullopt, eps, out};
    if (biased) {
      op.bias = weight(name + ".bias");
    }
    graph_.ops.emplace_back(op);
  }

  // in -> a new value; all rows of the weight.
  ValueId gemm(ValueId in, const std::string& weight_name, const std::string& bias_name, Activation activation) {
    const auto count = static_cast<std::uint32_t>(graph_.weights[weight(weight_name)].shape[0]);
    return gemm_rows(in, weight_name, bias_name, activation, 0, count);
  }
  ValueId gemm_rows(ValueId in, const std::string& weight_name, const std::string& bias_name, Activation activation, std::uint32_t first,
                    std::uint32_t count) {
    const ValueId out = value(rows(in), activation == Activation::geglu ? count / 2 : count);
    graph_.ops.emplace_back(Gemm{in, weight(weight_name), first, count, bias(bias_name), activation, false, out, precision_});
    return out;
  }
  // hidden += in W^T + bias
  void add_gemm(ValueId in, const std::string& weight_name, const std::string& bias_name) {
    graph_.ops.emplace_back(Gemm{in, weight(weight_name), 0, width_, bias(bias_name), Activation::none, true, hidden_, precision_});
  }
  [[nodiscard]] std::optional<WeightId> bias(const std::string& name) const {
    return name.empty() ? std::nullopt : std::optional(weight(name));
  }

  ValueId gather_picks(ValueId in) {
    const ValueId out = value(Rows::picks, graph_.values[in].width);
    graph_.ops.emplace_back(GatherPicks{in, out});
    return out;
  }

  // Attention over `in`, with queries for the tokens, or in the last layer for the picks; `hidden_` becomes the picks' there.
  ValueId attention(ValueId in, const std::string& qkv, const std::string& qkv_bias, const AttentionSpec& spec, bool last) {
    const auto heads = static_cast<std::uint32_t>(spec.heads);
    Attention op{0, 0, 0, 0, 0, 0, heads, width_ / heads, spec.reach, spec.theta, 0};
    if (last) {
      op.k = op.v = gemm_rows(in, qkv, qkv_bias, Activation::none, width_, 2 * width_);
      op.v_column = width_;
      const ValueId residual = hidden_;
      hidden_ = gather_picks(residual);
      op.q = gemm_rows(in == residual ? hidden_ : gather_picks(in), qkv, qkv_bias, Activation::none, 0, width_);
    } else {
      op.q = op.k = op.v = gemm(in, qkv, qkv_bias, Activation::none);
      op.k_column = width_;
      op.v_column = 2 * width_;
    }
    op.out = value(rows(op.q), width_);
    graph_.ops.emplace_back(op);
    return op.out;
  }

  void encoder_layer(std::size_t index, bool last) {
    const std::string prefix = "encoder.layers." + std::to_string(index);
    ValueId in = hidden_;
    if (index != 0) {  // the embedding's norm stands in for the first layer's
      in = value(Rows::tokens, width_);
      norm(hidden_, prefix + ".attn_norm", config_.norm_eps, false, in);
    }
    AttentionSpec spec{config_.heads, std::nullopt, config_.theta_full};
    if (!config_.layers[index].full) {
      spec.reach = static_cast<std::uint32_t>(config_.window / 2);
      spec.theta = config_.theta_local;
    }
    const ValueId attended = attention(in, prefix + ".attn.Wqkv.weight", "", spec, last);
    add_gemm(attended, prefix + ".attn.Wo.weight", "");
    const ValueId normed = value(rows(hidden_), width_);
    norm(hidden_, prefix + ".mlp_norm", config_.norm_eps, false, normed);
    add_gemm(gemm(normed, prefix + ".mlp.Wi.weight", "", Activation::geglu), prefix + ".mlp.Wo.weight", "");
  }

  void head_layer(std::size_t index, bool last) {
    const std::string prefix = "head.layers." + std::to_string(index);
    const ValueId in = value(Rows::tokens, width_);
    norm(hidden_, prefix + ".norm1", ModelConfig::head_eps, true, in);
    const AttentionSpec spec{config_.decision_heads(), std::nullopt, std::nullopt};
    const ValueId attended = attention(in, prefix + ".self_attn.in_proj_weight", prefix + ".self_attn.in_proj_bias", spec, last);
    add_gemm(attended, prefix + ".self_attn.out_proj.weight", prefix + ".self_attn.out_proj.bias");
    const ValueId normed = value(rows(hidden_), width_);
    norm(hidden_, prefix + ".norm2", ModelConfig::head_eps, true, normed);
    const ValueId wide = gemm(normed, prefix + ".linear1.weight", prefix + ".linear1.bias", Activation::relu);
    add_gemm(wide, prefix + ".linear2.weight", prefix + ".linear2.bias");
  }

  void scorer() {
    const ValueId marked = value(Rows::markers, width_);
    graph_.ops.emplace_back(GatherMarkers{hidden_, marked});
    norm(marked, "scorer.0", ModelConfig::head_eps, true, marked);
    graph_.logits =
        gemm(gemm(marked, "scorer.1.weight", "scorer.1.bias", Activation::gelu), "scorer.3.weight", "scorer.3.bias", Activation::none);
  }

  void act_head() {
    const ValueId features = value(Rows::seqs, width_ + 4);
    graph_.ops.emplace_back(ActFeatures{hidden_, graph_.logits, features});
    graph_.act = gemm(gemm(features, "act_head.0.weight", "act_head.0.bias", Activation::gelu), "act_head.2.weight", "act_head.2.bias",
                      Activation::none);
  }

  const ModelConfig& config_;
  Precision precision_;  ///< Of the gemms that come next.
  std::uint32_t width_;
  Graph graph_;
  std::map<std::string, WeightId, std::less<>> ids_;
  ValueId hidden_ = 0;  ///< The residual stream.
};

}  // namespace

Graph build_graph(const ModelConfig& config, Precision precision) {
  return Builder(config, precision).build();
}

}  // namespace kime
