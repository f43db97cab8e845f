#include "kime/model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "kime/base/answers.h"
#include "kime/model/fields.h"

namespace kime {
namespace {

// Far over every published size, and low enough that no product of two of them, times the bytes of an element, overflows 64 bits, and
// that four times a width fits 32.
constexpr std::size_t kMaxWidth = std::size_t{1} << 20;
constexpr std::size_t kMaxLayers = 1024;
constexpr std::size_t kMaxVocab = std::numeric_limits<std::uint32_t>::max();  // token ids have 32 bits
constexpr std::size_t kMaxPosition = std::numeric_limits<std::uint32_t>::max();

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

void read_layers(Fields& fields, std::size_t count, std::vector<LayerConfig>& layers) {
  const auto* types = fields.find("layer_types");
  if (types == nullptr) {
    const auto every = fields.whole("global_attn_every_n_layers", 1, kMaxLayers, 3);
    for (std::size_t i = 0; i < count; ++i) {
      layers.push_back({.full = i % every == 0});
    }
    return;
  }
  if (!types->is_array() || types->size() != count) {
    fields.wrong("layer_types", *types, fmt::format("a list of {} layers, as num_hidden_layers says", count));
    return;
  }
  for (const auto& type : *types) {
    if (type == kFull || type == kSliding) {
      layers.push_back({.full = type == kFull});
    } else if (type.is_string()) {
      fields.unsupported(fmt::format("layer_types has {}; kime runs {} and {}", json::brief(type), kFull, kSliding));
    } else {
      fields.wrong("layer_types", *types, "a list of strings");
      return;
    }
  }
}

// A rope type stands under "rope_type", in older files under "type".
void check_rope_type(Fields& fields, Fields& rope, const std::string& where) {
  const auto type = rope.text("rope_type", rope.text("type", "default"));
  if (type != "default") {
    fields.unsupported(fmt::format("{}rope_type is {}; kime runs default", where, json::brief(json::Value(type))));
  }
  fields.add(rope.error());
}

float read_theta(Fields& fields, const json::Value* parameters, std::string_view file, const char* layer_type, const std::string& older,
                 float absent) {
  constexpr double kLow = 1;
  constexpr double kHigh = 1e18;
  const float theta = fields.number(older, kLow, kHigh, absent);
  if (parameters == nullptr) {
    return theta;
  }
  Fields kinds(*parameters, file, "rope_parameters.");
  const auto* one = kinds.object(layer_type);
  fields.add(kinds.error());
  if (one == nullptr) {
    return theta;
  }
  const auto where = fmt::format("rope_parameters.{}.", layer_type);
  Fields rope(*one, file, where);
  const float own = rope.number("rope_theta", kLow, kHigh, theta);
  check_rope_type(fields, rope, where);
  return own;
}

void read_rope(Fields& fields, std::string_view file, const json::Value& encoder, ModelConfig& model) {
  if (const auto* scaling = fields.object("rope_scaling"); scaling != nullptr) {
    Fields rope(*scaling, file, "rope_scaling.");
    check_rope_type(fields, rope, "rope_scaling.");
  }
  const auto* parameters = fields.object("rope_parameters");
  if (parameters != nullptr) {
    // One flat set for both kinds of layer: readers of this format disagree on whether it counts.
    Fields flat(*parameters, file, "rope_parameters.");
    check_rope_type(fields, flat, "rope_parameters.");
    if (flat.find("rope_theta") != nullptr) {
      fields.unsupported(fmt::format("rope_parameters.rope_theta stands outside of {} and {}", kFull, kSliding));
    }
  }
  model.theta_full = read_theta(fields, parameters, file, kFull, "global_rope_theta", model.theta_full);
  // An older file says null for "as the full layers".
  const auto local = encoder.find("local_rope_theta");
  const bool as_full = local != encoder.end() && local->is_null();
  model.theta_local = read_theta(fields, parameters, file, kSliding, "local_rope_theta", as_full ? model.theta_full : model.theta_local);
}

void refuse_other_architectures(Fields& fields) {
  const auto require = [&fields](const std::string& name, const std::string& ours) {
    if (const auto value = fields.text(name, ours); value != ours) {
      fields.unsupported(fmt::format("{} is {}; kime runs {}", name, json::brief(json::Value(value)), ours));
    }
  };
  require("model_type", "modernbert");
  require("hidden_activation", "gelu");
  for (const char* bias : {"attention_bias", "mlp_bias", "norm_bias"}) {
    if (fields.flag(bias, false)) {
      fields.unsupported(fmt::format("{} is true; kime runs encoders without biases", bias));
    }
  }
}

Result<ModelConfig> parse_encoder(const json::Value& encoder, std::string_view file) {
  Fields fields(encoder, file);
  if (fields.error()) {
    return *fields.error();
  }
  refuse_other_architectures(fields);
  ModelConfig model;
  model.vocab = fields.whole("vocab_size", 1, kMaxVocab);
  model.hidden = fields.whole("hidden_size", 1, kMaxWidth);
  model.intermediate = fields.whole("intermediate_size", 1, kMaxWidth);
  model.heads = fields.whole("num_attention_heads", 1, kMaxWidth);
  const auto layers = fields.whole("num_hidden_layers", 1, kMaxLayers);
  if (fields.error()) {
    return *fields.error();  // what follows takes the sizes for granted
  }
  if (model.hidden % model.heads != 0) {
    fields.wrong("num_attention_heads", model.heads, fmt::format("a divisor of hidden_size, {}", model.hidden));
  } else if (model.head_width() % 2 != 0) {
    fields.wrong("num_attention_heads", model.heads, fmt::format("heads of an even width, not of {}", model.head_width()));
  }
  read_layers(fields, layers, model.layers);
  model.window = fields.whole("local_attention", 1, kMaxPosition, model.window);
  model.norm_eps = fields.number("norm_eps", 1e-30, 1, model.norm_eps);
  model.max_position = fields.whole("max_position_embeddings", 0, kMaxPosition, 0);
  read_rope(fields, file, encoder, model);
  if (fields.error()) {
    return *fields.error();
  }
  return model;
}

Result<Calibration> parse_calibration(Fields& fields) {
  Calibration calibration;
  // What is no finite number counts as 1: NaN and the infinities arrive as strings.
  const auto usable = [](const json::Value& value) { return value.is_number() ? clamp_temperature(value.get<double>()) : 1.0; };
  if (const auto* types = fields.find("temperature"); types != nullptr) {
    if (!types->is_array() || types->size() != calibration.by_type.size()) {
      fields.wrong("temperature", *types, "a list of 3 numbers");
      return *fields.error();
    }
    for (std::size_t i = 0; i < types->size(); ++i) {
      calibration.by_type[i] = usable((*types)[i]);
    }
  }
  constexpr std::array<const char*, 4> kOptions = {"2", "3-5", "6-10", "11+"};
  const auto* table = fields.object("temperature_by_options");
  for (std::size_t t = 0; t < kTypeNames.size() && table != nullptr; ++t) {
    for (std::size_t o = 0; o < kOptions.size(); ++o) {
      if (const auto entry = table->find(fmt::format("{}:{}", kTypeNames[t], kOptions[o])); entry != table->end()) {
        calibration.by_options[t][o] = usable(*entry);
      }
    }
  }
  return calibration;
}

Result<Calibration> parse_agent(const json::Value& agent, std::string_view file, ModelConfig& model) {
  Fields fields(agent, file);
  if (fields.error()) {
    return *fields.error();
  }
  if (const auto layout = fields.text("option_layout", "sequential"); layout != "sequential") {
    fields.unsupported(fmt::format("option_layout is {}; kime runs sequential", json::brief(json::Value(layout))));
  }
  model.head_layers = fields.whole("head_layers", 0, kMaxLayers, model.head_layers);
  const auto* costs = fields.object("act_costs");
  const auto outputs = (costs == nullptr ? 0 : costs->size()) + 1;
  if (outputs != ModelConfig::act_outputs) {
    fields.unsupported(
        fmt::format("an act head of {} outputs, one more than act_costs has entries; kime runs {}", outputs, ModelConfig::act_outputs));
  }
  auto calibration = parse_calibration(fields);
  if (fields.error()) {
    return *fields.error();
  }
  return calibration;
}

}  // namespace

Result<ParsedConfig> parse_config(std::string_view encoder_json, std::string_view encoder_file, std::string_view agent_json,
                                  std::string_view agent_file) {
  const auto encoder = json::parse(encoder_json, encoder_file, json::Dialect::python);
  if (!encoder) {
    return encoder.error();
  }
  const auto agent = json::parse(agent_json, agent_file, json::Dialect::python);
  if (!agent) {
    return agent.error();
  }
  auto model = parse_encoder(*encoder, encoder_file);
  if (!model) {
    return model.error();
  }
  auto calibration = parse_agent(*agent, agent_file, *model);
  if (!calibration) {
    return calibration.error();
  }
  if (model->head_layers != 0 && model->hidden % model->decision_heads() != 0) {
    return Error(ErrorKind::input,
                 fmt::format("{}: hidden_size is {}; the {} attention heads of a head layer, one for each 64, do not divide it",
                             encoder_file, model->hidden, model->decision_heads()));
  }
  return ParsedConfig{.model = *std::move(model), .calibration = *calibration};
}

}  // namespace kime
