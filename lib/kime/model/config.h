// What a checkpoint's two configuration files say about the model, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/error.h"
#include "kime/model/calibration.h"

namespace kime {

/// One encoder layer's attention.
struct LayerConfig {
  bool full = false;  ///< Every key of the sequence is seen; else those within ModelConfig::window / 2.
};

/// The sizes of a model. All are at least 1 but `head_layers`.
struct ModelConfig {
  std::size_t vocab = 0;
  std::size_t hidden = 0;
  std::size_t intermediate = 0;  ///< The width after GEGLU; mlp.Wi has twice as many rows.
  std::size_t heads = 0;         ///< Of the encoder; divides `hidden`.
  std::vector<LayerConfig> layers;
  std::size_t window = 128;  ///< local_attention: key j is seen by query i when |i - j| <= window / 2.
  float norm_eps = 1e-5F;
  float theta_full = 160000.0F;
  float theta_local = 10000.0F;
  std::size_t max_position = 0;  ///< For information: positions are not limited by it.
  std::size_t head_layers = 2;

  static constexpr std::size_t types = 3;         ///< choice, score, noul.
  static constexpr std::size_t act_hidden = 256;  ///< Width of the act head's hidden layer.
  static constexpr std::size_t act_outputs = 2;
  static constexpr float head_eps = 1e-5F;

  [[nodiscard]] std::size_t head_width() const { return hidden / heads; }
  [[nodiscard]] std::size_t decision_heads() const { return hidden < 64 ? 1 : hidden / 64; }  ///< Attention heads of a head layer.
};

/// A weight that a model of this config has: its name in the checkpoint and its shape, outermost first.
struct TensorSpec {
  std::string name;
  std::vector<std::size_t> shape;
};

/// Every weight of the model, in the order in which the model uses them. The graph's weights are these, in this order.
[[nodiscard]] std::vector<TensorSpec> expected_tensors(const ModelConfig& config);

/// Parses encoder/config.json (older field names and those of transformers 5) and rl_agent_config.json. The file names are for errors.
/// Errors: `input` for what is no JSON or has a wrong type or value, naming file, field and value; `unsupported` by name for what this
/// family has but kime cannot run.
struct ParsedConfig {
  ModelConfig model;
  Calibration calibration;
};
Result<ParsedConfig> parse_config(std::string_view encoder_json, std::string_view encoder_file, std::string_view agent_json,
                                  std::string_view agent_file);

}  // namespace kime
