// Both configuration files: what is read, what is refused, and in which words.
#include "kime/model/config.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/checkpoint_writer.h"

namespace {

using kime::ErrorKind;
using kime::LayerConfig;
using kime::ParsedConfig;
using kime::Result;
using kime::test::TestModel;
using nlohmann::json;

struct Files {
  json encoder = TestModel().encoder_config();
  json agent = TestModel().agent_config();
};

Result<ParsedConfig> parse(const std::string& encoder, const std::string& agent) {
  return kime::parse_config(encoder, "m/encoder/config.json", agent, "m/rl_agent_config.json");
}
Result<ParsedConfig> parse(const Files& files) {
  return parse(files.encoder.dump(), files.agent.dump());
}

std::vector<bool> full(const ParsedConfig& config) {
  std::vector<bool> layers;
  for (const LayerConfig& layer : config.model.layers) {
    layers.push_back(layer.full);
  }
  return layers;
}

TEST_CASE("both files are read, in the names of transformers 5") {
  TestModel model;
  model.theta_full = 12345;
  model.theta_local = 678;
  model.norm_eps = 1e-6F;
  Files files{.encoder = model.encoder_config(), .agent = model.agent_config()};
  files.encoder["max_position_embeddings"] = 8192;
  files.encoder["global_attn_every_n_layers"] = 2;  // layer_types stands
  const auto config = parse(files);
  REQUIRE(config);
  CHECK(config->model.vocab == 50);
  CHECK(config->model.hidden == 16);
  CHECK(config->model.intermediate == 24);
  CHECK(config->model.heads == 2);
  CHECK(config->model.head_width() == 8);
  CHECK(full(*config) == std::vector<bool>{true, false, true});
  CHECK(config->model.window == 6);
  CHECK(config->model.norm_eps == 1e-6F);
  CHECK(config->model.theta_full == 12345.0F);
  CHECK(config->model.theta_local == 678.0F);
  CHECK(config->model.max_position == 8192);
  CHECK(config->model.head_layers == 2);
}

TEST_CASE("the older names, and what holds where nothing is said") {
  Files files;
  for (const char* name :
       {"layer_types", "rope_parameters", "local_attention", "norm_eps", "model_type", "hidden_activation", "norm_bias"}) {
    files.encoder.erase(name);
  }
  files.encoder["num_hidden_layers"] = 7;
  files.agent.erase("head_layers");
  files.agent.erase("temperature");

  auto config = parse(files);
  REQUIRE(config);
  CHECK(full(*config) == std::vector<bool>{true, false, false, true, false, false, true});
  CHECK(config->model.window == 128);
  CHECK(config->model.norm_eps == 1e-5F);
  CHECK(config->model.theta_full == 160000.0F);
  CHECK(config->model.theta_local == 10000.0F);
  CHECK(config->model.head_layers == 2);
  CHECK(config->calibration.by_type == std::array<double, 3>{1, 1, 1});

  files.encoder["global_rope_theta"] = 500;
  files.encoder["local_rope_theta"] = 600.5;
  files.encoder["global_attn_every_n_layers"] = 2;
  files.agent["head_layers"] = 0;
  config = parse(files);
  REQUIRE(config);
  CHECK(full(*config) == std::vector<bool>{true, false, true, false, true, false, true});
  CHECK(config->model.theta_full == 500.0F);
  CHECK(config->model.theta_local == 600.5F);
  CHECK(config->model.head_layers == 0);

  files.encoder["local_rope_theta"] = nullptr;  // as the full layers
  config = parse(files);
  REQUIRE(config);
  CHECK(config->model.theta_local == 500.0F);

  files.encoder["rope_parameters"] = {{"full_attention", {{"rope_theta", 7.0}}}};  // only one of the two
  files.encoder["local_rope_theta"] = 600.5;
  config = parse(files);
  REQUIRE(config);
  CHECK(config->model.theta_full == 7.0F);
  CHECK(config->model.theta_local == 600.5F);
}

TEST_CASE("null is as good as absent, and the encoder's name and max_len are not looked at") {
  Files files;
  for (const char* name : {"local_attention", "norm_eps", "rope_scaling", "attention_bias", "max_position_embeddings"}) {
    files.encoder[name] = nullptr;
  }
  files.agent["encoder"] = "elsewhere/../../x";
  files.agent["max_len"] = 1;
  files.agent["temperature_by_options"] = nullptr;
  files.agent["option_layout"] = "sequential";
  const auto config = parse(files);
  REQUIRE(config);
  CHECK(config->model.window == 128);
}

TEST_CASE("temperatures are clamped, and what is no finite number counts as 1") {
  const std::string agent = R"({"act_costs": {"ask": 0.1}, "temperature": [NaN, 0.1, 1e999],
    "temperature_by_options": {"choice:2": true, "choice:3-5": "2.0", "choice:6-10": -Infinity, "choice:11+": null, "score:2": 9,
                               "score:3-5": 0, "noul:2": 1.25, "noul:3-5": [2], "noul:12": 3, "other:2": 4}})";
  const auto config = parse(Files().encoder.dump(), agent);
  REQUIRE(config);
  const auto& calibration = config->calibration;
  CHECK(calibration.by_type == std::array<double, 3>{1, 0.5, 1});
  using Row = std::array<std::optional<double>, 4>;
  CHECK(calibration.by_options[0] == Row{1.0, 1.0, 1.0, 1.0});
  CHECK(calibration.by_options[1] == Row{5.0, 0.5, std::nullopt, std::nullopt});
  CHECK(calibration.by_options[2] == Row{1.25, 1.0, std::nullopt, std::nullopt});
}

// Of trivial types, since a compiler with sanitizers takes minutes for long lists of others.
struct Refusal {
  const char* title;
  void (*change)(Files&);
  const char* message;
};

void check_refused(const Refusal& refusal, ErrorKind kind) {
  INFO(refusal.title);
  Files files;
  refusal.change(files);
  const auto config = parse(files);
  REQUIRE_FALSE(config);
  CHECK(config.error().kind() == kind);
  CHECK(config.error().message() == refusal.message);
}

TEST_CASE("what kime cannot run is refused by name") {
  constexpr Refusal kRefusals[] = {
      {"layout", [](Files& f) { f.agent["option_layout"] = "parallel"; },
       "m/rl_agent_config.json: option_layout is \"parallel\"; kime runs sequential"},
      {"two costs",
       [](Files& f) {
         f.agent["act_costs"] = {{"a", 1}, {"b", 2}};
       },
       "m/rl_agent_config.json: an act head of 3 outputs, one more than act_costs has entries; kime runs 2"},
      {"no costs", [](Files& f) { f.agent["act_costs"] = json::object(); },
       "m/rl_agent_config.json: an act head of 1 outputs, one more than act_costs has entries; kime runs 2"},
      {"act_costs absent", [](Files& f) { f.agent.erase("act_costs"); },
       "m/rl_agent_config.json: an act head of 1 outputs, one more than act_costs has entries; kime runs 2"},
      {"model", [](Files& f) { f.encoder["model_type"] = "bert"; }, "m/encoder/config.json: model_type is \"bert\"; kime runs modernbert"},
      {"activation", [](Files& f) { f.encoder["hidden_activation"] = "gelu_new"; },
       "m/encoder/config.json: hidden_activation is \"gelu_new\"; kime runs gelu"},
      {"attention bias", [](Files& f) { f.encoder["attention_bias"] = true; },
       "m/encoder/config.json: attention_bias is true; kime runs encoders without biases"},
      {"mlp bias", [](Files& f) { f.encoder["mlp_bias"] = true; },
       "m/encoder/config.json: mlp_bias is true; kime runs encoders without biases"},
      {"norm bias", [](Files& f) { f.encoder["norm_bias"] = true; },
       "m/encoder/config.json: norm_bias is true; kime runs encoders without biases"},
      {"rope of full layers", [](Files& f) { f.encoder["rope_parameters"]["full_attention"]["rope_type"] = "yarn"; },
       "m/encoder/config.json: rope_parameters.full_attention.rope_type is \"yarn\"; kime runs default"},
      {"rope of sliding layers", [](Files& f) { f.encoder["rope_parameters"]["sliding_attention"]["rope_type"] = "linear"; },
       "m/encoder/config.json: rope_parameters.sliding_attention.rope_type is \"linear\"; kime runs default"},
      {"older rope scaling",
       [](Files& f) {
         f.encoder["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
       },
       "m/encoder/config.json: rope_scaling.rope_type is \"dynamic\"; kime runs default"},
      {"one rope for both",
       [](Files& f) {
         f.encoder["rope_parameters"] = {{"rope_theta", 1e4}};
       },
       "m/encoder/config.json: rope_parameters.rope_theta stands outside of full_attention and sliding_attention"},
      {"layer type", [](Files& f) { f.encoder["layer_types"][1] = "chunked_attention"; },
       "m/encoder/config.json: layer_types has \"chunked_attention\"; kime runs full_attention and sliding_attention"},
  };
  for (const auto& refusal : kRefusals) {
    check_refused(refusal, ErrorKind::unsupported);
  }
}

TEST_CASE("what makes no sense is named with its file, field and value") {
  constexpr Refusal kRefusals[] = {
      {"no vocabulary", [](Files& f) { f.encoder.erase("vocab_size"); }, "m/encoder/config.json: vocab_size is missing"},
      {"no hidden size", [](Files& f) { f.encoder.erase("hidden_size"); }, "m/encoder/config.json: hidden_size is missing"},
      {"no feed-forward size", [](Files& f) { f.encoder.erase("intermediate_size"); },
       "m/encoder/config.json: intermediate_size is missing"},
      {"no heads", [](Files& f) { f.encoder.erase("num_attention_heads"); }, "m/encoder/config.json: num_attention_heads is missing"},
      {"null layers", [](Files& f) { f.encoder["num_hidden_layers"] = nullptr; }, "m/encoder/config.json: num_hidden_layers is missing"},
      {"string", [](Files& f) { f.encoder["hidden_size"] = "16"; },
       "m/encoder/config.json: hidden_size is \"16\"; expected a whole number from 1 to 1048576"},
      {"float", [](Files& f) { f.encoder["hidden_size"] = 16.0; },
       "m/encoder/config.json: hidden_size is 16.0; expected a whole number from 1 to 1048576"},
      {"bool", [](Files& f) { f.encoder["num_hidden_layers"] = true; },
       "m/encoder/config.json: num_hidden_layers is true; expected a whole number from 1 to 1024"},
      {"negative", [](Files& f) { f.encoder["vocab_size"] = -1; },
       "m/encoder/config.json: vocab_size is -1; expected a whole number from 1 to 4294967295"},
      {"zero", [](Files& f) { f.encoder["num_attention_heads"] = 0; },
       "m/encoder/config.json: num_attention_heads is 0; expected a whole number from 1 to 1048576"},
      {"2^64 - 1", [](Files& f) { f.encoder["intermediate_size"] = UINT64_MAX; },
       "m/encoder/config.json: intermediate_size is 18446744073709551615; expected a whole number from 1 to 1048576"},
      {"heads", [](Files& f) { f.encoder["num_attention_heads"] = 3; },
       "m/encoder/config.json: num_attention_heads is 3; expected a divisor of hidden_size, 16"},
      {"odd heads", [](Files& f) { f.encoder["num_attention_heads"] = 16; },
       "m/encoder/config.json: num_attention_heads is 16; expected heads of an even width, not of 1"},
      {"decision heads", [](Files& f) { f.encoder["hidden_size"] = 200; },
       "m/encoder/config.json: hidden_size is 200; the 3 attention heads of a head layer, one for each 64, do not divide it"},
      {"layer count", [](Files& f) { f.encoder["num_hidden_layers"] = 2; },
       "m/encoder/config.json: layer_types is [\"full_attention\",\"sliding_attention\",\"full_attention\"]; expected a list of 2 layers, "
       "as "
       "num_hidden_layers says"},
      {"layer types",
       [](Files& f) {
         f.encoder["layer_types"] = {1, 2, 3};
       },
       "m/encoder/config.json: layer_types is [1,2,3]; expected a list of strings"},
      {"window", [](Files& f) { f.encoder["local_attention"] = 0; },
       "m/encoder/config.json: local_attention is 0; expected a whole number from 1 to 4294967295"},
      {"pattern",
       [](Files& f) {
         f.encoder.erase("layer_types");
         f.encoder["global_attn_every_n_layers"] = 0;
       },
       "m/encoder/config.json: global_attn_every_n_layers is 0; expected a whole number from 1 to 1024"},
      {"eps", [](Files& f) { f.encoder["norm_eps"] = 0; }, "m/encoder/config.json: norm_eps is 0; expected a number from 1e-30 to 1"},
      {"eps of a string", [](Files& f) { f.encoder["norm_eps"] = "small"; },
       "m/encoder/config.json: norm_eps is \"small\"; expected a number from 1e-30 to 1"},
      {"theta", [](Files& f) { f.encoder["rope_parameters"]["sliding_attention"]["rope_theta"] = -3; },
       "m/encoder/config.json: rope_parameters.sliding_attention.rope_theta is -3; expected a number from 1 to 1e+18"},
      {"older theta",
       [](Files& f) {
         f.encoder.erase("rope_parameters");
         f.encoder["global_rope_theta"] = "x";
       },
       "m/encoder/config.json: global_rope_theta is \"x\"; expected a number from 1 to 1e+18"},
      {"rope", [](Files& f) { f.encoder["rope_parameters"] = 3; }, "m/encoder/config.json: rope_parameters is 3; expected an object"},
      {"rope of a layer", [](Files& f) { f.encoder["rope_parameters"]["full_attention"] = {1}; },
       "m/encoder/config.json: rope_parameters.full_attention is [1]; expected an object"},
      {"flag", [](Files& f) { f.encoder["norm_bias"] = "no"; }, "m/encoder/config.json: norm_bias is \"no\"; expected true or false"},
      {"name", [](Files& f) { f.encoder["model_type"] = 5; }, "m/encoder/config.json: model_type is 5; expected a string"},
      {"head layers", [](Files& f) { f.agent["head_layers"] = -1; },
       "m/rl_agent_config.json: head_layers is -1; expected a whole number from 0 to 1024"},
      {"costs", [](Files& f) { f.agent["act_costs"] = {1}; }, "m/rl_agent_config.json: act_costs is [1]; expected an object"},
      {"temperature", [](Files& f) { f.agent["temperature"] = 2; },
       "m/rl_agent_config.json: temperature is 2; expected a list of 3 numbers"},
      {"two temperatures",
       [](Files& f) {
         f.agent["temperature"] = {1, 2};
       },
       "m/rl_agent_config.json: temperature is [1,2]; expected a list of 3 numbers"},
      {"temperature table", [](Files& f) { f.agent["temperature_by_options"] = {1}; },
       "m/rl_agent_config.json: temperature_by_options is [1]; expected an object"},
      {"no object",
       [](Files& f) {
         f.encoder = {1, 2};
       },
       "m/encoder/config.json: expected a JSON object, found [1,2]"},
      {"no object either", [](Files& f) { f.agent = "x"; }, "m/rl_agent_config.json: expected a JSON object, found \"x\""},
  };
  for (const auto& refusal : kRefusals) {
    check_refused(refusal, ErrorKind::input);
  }
}

TEST_CASE("what is not JSON is named with its place") {
  const auto message = [](const std::string& encoder) {
    const auto config = parse(encoder, Files().agent.dump());
    REQUIRE_FALSE(config);
    CHECK(config.error().kind() == ErrorKind::input);
    return config.error().message();
  };
  using Catch::Contains;
  using Catch::StartsWith;
  CHECK_THAT(message(""), StartsWith("m/encoder/config.json: line 1, column 1: syntax error"));
  CHECK_THAT(message("{\n  \"a\": 1,\n  }"), StartsWith("m/encoder/config.json: line 3, column 3: syntax error"));
  CHECK_THAT(message("{\"a\": 1"), StartsWith("m/encoder/config.json: line 1, column 8: syntax error"));
  CHECK_THAT(message("{\"a\": \"\xff\"}"), Contains("ill-formed UTF-8"));
  CHECK_THAT(message("{} x"), StartsWith("m/encoder/config.json: line 1, column 4: syntax error"));
  CHECK(message(std::string("{}\0 x", 5)) == "m/encoder/config.json: line 1, column 3: a NUL byte is not JSON");
  CHECK(message(R"({"a": 1, "\u0061": 2})") == "m/encoder/config.json: a stands twice in one object");
  CHECK(message(std::string(200, '[')) == "m/encoder/config.json: nested over 128 levels");
  CHECK(message(R"({"vocab_size": NaN})") == "m/encoder/config.json: vocab_size is \"NaN\"; expected a whole number from 1 to 4294967295");
  CHECK(message(R"({"vocab_size": )" + std::string(400, '9') + "}").size() < 250);  // a long value is cut
}

TEST_CASE("the expected tensors are those that a checkpoint writer knows") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const auto model = kime::test::random_model(seed);
    const auto config = parse(model.encoder_config().dump(), model.agent_config().dump());
    REQUIRE(config);
    std::map<std::string, std::vector<std::size_t>> want;
    for (const auto& tensor : model.tensors()) {
      want[tensor.name] = tensor.shape;
    }
    std::map<std::string, std::vector<std::size_t>> got;
    const auto specs = kime::expected_tensors(config->model);
    for (const auto& spec : specs) {
      got[spec.name] = spec.shape;
    }
    CHECK(got == want);
    CHECK(specs.size() == want.size());  // none twice
    CHECK(specs.front().name == "encoder.embeddings.tok_embeddings.weight");
    CHECK(specs.back().name == "act_head.2.bias");
  }
}

}  // namespace
