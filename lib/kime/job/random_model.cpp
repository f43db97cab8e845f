#include "kime/job/random_model.h"

#include <cmath>
#include <cstring>
#include <string>

namespace kime {

namespace {

// splitmix64 (Steele et al. 2014): each element's bits from its position alone.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

ModelConfig base_config() {
  ModelConfig config;
  config.vocab = 50368;
  config.hidden = 768;
  config.intermediate = 1152;
  config.heads = 12;
  config.layers.resize(22);
  for (std::size_t i = 0; i < config.layers.size(); i += 3) {
    config.layers[i].full = true;
  }
  config.max_position = 8192;
  return config;
}

Status RandomTensors::read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const {
  const TensorSpec& spec = specs_[index];
  const bool matrix = spec.shape.size() == 2;
  const float constant = ends_with(spec.name, "weight") ? 1.0F : 0.0F;
  const bool looked_up = ends_with(spec.name, "tok_embeddings.weight") || ends_with(spec.name, "type_emb.weight");
  const float scale = !matrix ? 0.0F : looked_up ? std::sqrt(3.0F) : std::sqrt(3.0F / static_cast<float>(spec.shape[1]));
  const std::uint64_t first = offset / sizeof(float);
  for (std::size_t i = 0; i < out.size() / sizeof(float); ++i) {
    const auto random = static_cast<float>(mix((std::uint64_t{index} << 40U) + first + i) >> 40U);
    const float value = matrix ? scale * (random / 8388608.0F - 1.0F) : constant;
    std::memcpy(out.data() + i * sizeof(float), &value, sizeof value);
  }
  return {};
}

}  // namespace kime
