#include "tests/support/checkpoint_writer.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace kime::test {
namespace {

// splitmix64: the same numbers with every standard library.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  // About normal, of variance 1.
  float normal() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
      sum += static_cast<double>(next() >> 11U) * 0x1p-53;
    }
    return static_cast<float>(sum - 6);
  }

 private:
  std::uint64_t state_;
};

// Cut to 8 significant bits; 0 where float16 would be subnormal.
float coarse(float x) {
  return std::fabs(x) < 0x1p-14F ? 0.0F : std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffff0000U);
}

void append(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xffU);
  }
}

// Exact for the values of a TestTensor.
void encode(std::string& out, float value, const std::string& dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (dtype == "F32") {
    append(out, bits, 4);
  } else if (dtype == "BF16") {
    append(out, bits >> 16U, 2);
  } else {
    const std::uint32_t sign = bits >> 16U & 0x8000U;
    append(out, value == 0 ? sign : sign | ((bits & 0x7fffffffU) - (112U << 23U)) >> 13U, 2);
  }
}

class Weights {
 public:
  explicit Weights(std::uint64_t seed) : random_(seed) {}

  // Values of about `scale`, around `center`.
  void add(std::string name, std::vector<std::size_t> shape, double scale, float center = 0) {
    TestTensor tensor{.name = std::move(name), .shape = std::move(shape), .values = {}};
    std::size_t count = 1;
    for (const auto extent : tensor.shape) {
      count *= extent;
    }
    for (std::size_t i = 0; i < count; ++i) {
      tensor.values.push_back(coarse(center + random_.normal() * static_cast<float>(scale)));
    }
    tensors_.push_back(std::move(tensor));
  }
  void norm(const std::string& name, std::size_t d, bool bias) {
    add(name + ".weight", {d}, 0.2, 1);
    if (bias) {
      add(name + ".bias", {d}, 0.1);
    }
  }
  void linear(const std::string& name, std::size_t out, std::size_t in, bool bias, double gain = 1) {
    add(name + ".weight", {out, in}, gain / std::sqrt(static_cast<double>(in)));
    if (bias) {
      add(name + ".bias", {out}, 0.1);
    }
  }
  [[nodiscard]] std::vector<TestTensor> take() { return std::move(tensors_); }

 private:
  SplitMix random_;
  std::vector<TestTensor> tensors_;
};

void write_weights(const std::string& directory, const TestModel& model) {
  const auto tensors = model.tensors();
  if (model.shards == 1) {
    write_file(directory + "/model.safetensors", safetensors_file(tensors, model.dtype));
    return;
  }
  nlohmann::json map;
  for (std::size_t s = 0; s < model.shards; ++s) {
    const auto name = fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, model.shards);
    std::vector<TestTensor> part;
    for (std::size_t i = s; i < tensors.size(); i += model.shards) {
      part.push_back(tensors[i]);
      map[tensors[i].name] = name;
    }
    write_file(directory + "/" + name, safetensors_file(part, model.dtype));
  }
  write_file(directory + "/model.safetensors.index.json",
             nlohmann::json{{"metadata", nlohmann::json::object()}, {"weight_map", map}}.dump());
}

}  // namespace

TempDir::TempDir() {
  std::string pattern = std::filesystem::temp_directory_path() / "kime-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("no temporary directory at " + pattern);
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::filesystem::remove(path);  // some file systems wait for the disk when a file is cut to nothing and written again
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  if (!out) {
    throw std::runtime_error("cannot write " + path);
  }
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw std::runtime_error("cannot read " + path);
  }
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string safetensors_file(std::string header, const std::string& data) {
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string file;
  append(file, header.size(), 8);
  return file + header + data;
}

std::string safetensors_file(std::span<const TestTensor> tensors, const std::string& dtype) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& tensor : tensors) {
    const auto begin = data.size();
    for (const float value : tensor.values) {
      encode(data, value, dtype);
    }
    header[tensor.name] = {{"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return safetensors_file(header.dump(), data);
}

nlohmann::json TestModel::encoder_config() const {
  nlohmann::json config = {{"model_type", "modernbert"},
                           {"vocab_size", vocab},
                           {"hidden_size", hidden},
                           {"intermediate_size", intermediate},
                           {"num_hidden_layers", full_layers.size()},
                           {"num_attention_heads", heads},
                           {"hidden_activation", "gelu"},
                           {"local_attention", window},
                           {"norm_eps", norm_eps},
                           {"attention_bias", false},
                           {"mlp_bias", false},
                           {"norm_bias", false}};
  for (const bool full : full_layers) {
    config["layer_types"].push_back(full ? "full_attention" : "sliding_attention");
  }
  if (older_names) {
    config["global_rope_theta"] = theta_full;
    config["local_rope_theta"] = theta_local;
  } else {
    config["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", theta_full}}},
                                 {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", theta_local}}}};
  }
  return config;
}

nlohmann::json TestModel::agent_config() const {
  return {{"encoder", "encoder"},
          {"head_layers", head_layers},
          {"max_len", 512},
          {"act_costs", {{"ask", 0.1}}},
          {"temperature", {1.0, 1.0, 1.0}}};
}

std::vector<TestTensor> TestModel::tensors() const {
  const auto d = hidden;
  Weights weights(seed);
  weights.add("encoder.embeddings.tok_embeddings.weight", {vocab, d}, 1);
  weights.norm("encoder.embeddings.norm", d, false);
  for (std::size_t i = 0; i < full_layers.size(); ++i) {
    const auto prefix = fmt::format("encoder.layers.{}.", i);
    if (i != 0) {
      weights.norm(prefix + "attn_norm", d, false);
    }
    weights.linear(prefix + "attn.Wqkv", 3 * d, d, false);
    weights.linear(prefix + "attn.Wo", d, d, false);
    weights.norm(prefix + "mlp_norm", d, false);
    weights.linear(prefix + "mlp.Wi", 2 * intermediate, d, false);
    weights.linear(prefix + "mlp.Wo", d, intermediate, false);
  }
  weights.norm("encoder.final_norm", d, false);
  for (std::size_t i = 0; i < head_layers; ++i) {
    const auto prefix = fmt::format("head.layers.{}.", i);
    weights.add(prefix + "self_attn.in_proj_weight", {3 * d, d}, 1 / std::sqrt(static_cast<double>(d)));
    weights.add(prefix + "self_attn.in_proj_bias", {3 * d}, 0.1);
    weights.linear(prefix + "self_attn.out_proj", d, d, true);
    weights.linear(prefix + "linear1", 4 * d, d, true);
    weights.linear(prefix + "linear2", d, 4 * d, true);
    weights.norm(prefix + "norm1", d, true);
    weights.norm(prefix + "norm2", d, true);
  }
  weights.add("type_emb.weight", {3, d}, 1);
  weights.norm("scorer.0", d, true);
  weights.linear("scorer.1", d, d, true);
  weights.linear("scorer.3", 1, d, true, 3);
  weights.linear("act_head.0", 256, d + 4, true);
  weights.linear("act_head.2", 2, 256, true);
  return weights.take();
}

TestModel random_model(std::uint64_t seed) {
  SplitMix random(seed);
  TestModel model;
  model.seed = random.next();
  model.heads = 1 + random.below(3);
  constexpr std::size_t kWidths[] = {8, 16, 24, 40, 64};
  model.hidden = model.heads * kWidths[random.below(5)];
  model.intermediate = 8 * (1 + random.below(12));
  model.vocab = 20 + random.below(200);
  model.full_layers.clear();
  for (std::size_t i = 1 + random.below(4); i > 0; --i) {
    model.full_layers.push_back(random.below(2) == 0);
  }
  model.window = 1 + random.below(40);
  model.head_layers = random.below(5);
  model.theta_local = random.below(2) == 0 ? 10000.0F : 160000.0F;
  constexpr const char* kTypes[] = {"F32", "F16", "BF16"};
  model.dtype = kTypes[random.below(3)];
  model.shards = 1 + random.below(3);
  model.older_names = random.below(2) == 0;
  return model;
}

void write_checkpoint(const std::string& directory, const TestModel& model) {
  write_file(directory + "/encoder/config.json", model.encoder_config().dump(1));
  write_file(directory + "/rl_agent_config.json", model.agent_config().dump(1));
  write_weights(directory, model);
}

}  // namespace kime::test
