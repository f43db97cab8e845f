// The names and shapes of a model's weights, in the order in which the model uses them.
#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "kime/model/config.h"

namespace kime {
namespace {

class List {
 public:
  void add(std::string name, std::initializer_list<std::size_t> shape) { specs_.push_back({std::move(name), shape}); }
  // A linear layer or a norm: "NAME.weight" and "NAME.bias".
  void add_with_bias(const std::string& name, std::initializer_list<std::size_t> shape) {
    add(name + ".weight", shape);
    add(name + ".bias", {*shape.begin()});
  }
  [[nodiscard]] std::vector<TensorSpec> take() { return std::move(specs_); }

 private:
  std::vector<TensorSpec> specs_;
};

void add_encoder_layer(List& list, const ModelConfig& config, std::size_t layer) {
  const auto d = config.hidden;
  const auto prefix = fmt::format("encoder.layers.{}.", layer);
  if (layer != 0) {  // the embedding's norm stands before layer 0
    list.add(prefix + "attn_norm.weight", {d});
  }
  list.add(prefix + "attn.Wqkv.weight", {3 * d, d});
  list.add(prefix + "attn.Wo.weight", {d, d});
  list.add(prefix + "mlp_norm.weight", {d});
  list.add(prefix + "mlp.Wi.weight", {2 * config.intermediate, d});
  list.add(prefix + "mlp.Wo.weight", {d, config.intermediate});
}

void add_head_layer(List& list, const ModelConfig& config, std::size_t layer) {
  const auto d = config.hidden;
  const auto prefix = fmt::format("head.layers.{}.", layer);
  list.add_with_bias(prefix + "norm1", {d});
  list.add(prefix + "self_attn.in_proj_weight", {3 * d, d});
  list.add(prefix + "self_attn.in_proj_bias", {3 * d});
  list.add_with_bias(prefix + "self_attn.out_proj", {d, d});
  list.add_with_bias(prefix + "norm2", {d});
  list.add_with_bias(prefix + "linear1", {4 * d, d});
  list.add_with_bias(prefix + "linear2", {d, 4 * d});
}

}  // namespace

std::vector<TensorSpec> expected_tensors(const ModelConfig& config) {
  const auto d = config.hidden;
  List list;
  list.add("encoder.embeddings.tok_embeddings.weight", {config.vocab, d});
  list.add("encoder.embeddings.norm.weight", {d});
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    add_encoder_layer(list, config, i);
  }
  list.add("encoder.final_norm.weight", {d});
  list.add("type_emb.weight", {ModelConfig::types, d});
  for (std::size_t i = 0; i < config.head_layers; ++i) {
    add_head_layer(list, config, i);
  }
  list.add_with_bias("scorer.0", {d});
  list.add_with_bias("scorer.1", {d, d});
  list.add_with_bias("scorer.3", {1, d});
  list.add_with_bias("act_head.0", {ModelConfig::act_hidden, d + 4});
  list.add_with_bias("act_head.2", {ModelConfig::act_outputs, ModelConfig::act_hidden});
  return list.take();
}

}  // namespace kime
