// Small models with random weights, and batches for them. Needs kime_model and kime_batch.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kime/base/tensor.h"
#include "kime/batch/batch.h"
#include "kime/model/config.h"
#include "tests/support/reference.h"

namespace kime::test {

/// A model's weights, kept as the bytes of a checkpoint. Every value is one that `dtype` holds exactly.
class RandomWeights {
 public:
  RandomWeights(const ModelConfig& config, std::uint64_t seed, DType dtype = DType::f32) : specs_(expected_tensors(config)) {
    Random random(seed);
    for (const TensorSpec& spec : specs_) {
      std::size_t size = 1;
      for (const std::size_t n : spec.shape) {
        size *= n;
      }
      // Norms' weights around 1, biases small, matrices so that activations stay of order one.
      const bool vector = spec.shape.size() == 1;
      const bool bias = spec.name.ends_with("bias");
      const float scale = bias     ? 0.25F
                          : vector ? 0.5F
                                   : std::exp2(std::round(std::log2(1.7F / std::sqrt(static_cast<float>(spec.shape[1])))));
      const float centre = vector && !bias ? 1.0F : 0.0F;
      auto& values = values_.emplace_back();
      auto& bytes = bytes_.emplace_back();
      for (std::size_t i = 0; i < size; ++i) {
        values.push_back(centre + scale * (static_cast<float>(random.below(129)) / 64.0F - 1.0F));  // 7 bits: exact in BF16 and F16
        append(bytes, values.back(), dtype);
      }
    }
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      tensors_.push_back({dtype, specs_[i].shape, bytes_[i]});
    }
  }
  RandomWeights(const RandomWeights&) = delete;
  RandomWeights& operator=(const RandomWeights&) = delete;

  [[nodiscard]] HostTensors source() const { return HostTensors(tensors_); }
  [[nodiscard]] std::span<HostTensor> tensors() { return tensors_; }
  /// The values of the weight of this name, which must exist.
  [[nodiscard]] const std::vector<float>& operator[](const std::string& name) const {
    const auto found = std::ranges::find_if(specs_, [&](const TensorSpec& spec) { return spec.name == name; });
    return values_.at(static_cast<std::size_t>(found - specs_.begin()));
  }

 private:
  static void append(std::vector<std::byte>& bytes, float value, DType dtype) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    std::uint32_t out = word;
    if (dtype == DType::bf16) {
      out = word >> 16;
    } else if (dtype == DType::f16) {  // normal numbers and zero only
      out = value == 0 ? 0 : (word >> 16 & 0x8000U) | ((word >> 13 & 0x3FFFFU) - (112U << 10));
    }
    const std::size_t at = bytes.size();
    bytes.resize(at + size_of(dtype));
    std::memcpy(bytes.data() + at, &out, size_of(dtype));
  }

  std::vector<TensorSpec> specs_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<HostTensor> tensors_;
};

/// A model of odd sizes that the CPU runs.
inline ModelConfig random_config(Random& random) {
  static constexpr struct {
    std::size_t hidden;
    std::size_t heads;
  } kWidths[] = {{8, 1}, {24, 1}, {24, 3}, {40, 5}, {56, 1}, {64, 4}, {72, 9}, {120, 1}, {128, 2}, {128, 1}, {144, 6}, {192, 3}};
  ModelConfig config;
  const auto& widths = kWidths[random.below(std::size(kWidths))];
  config.vocab = 3 + random.below(100);
  config.hidden = widths.hidden;
  config.heads = widths.heads;
  config.intermediate = 1 + random.below(150);
  for (std::size_t i = 1 + random.below(4); i != 0; --i) {
    config.layers.push_back({random.below(2) == 0});
  }
  config.window = 1 + random.below(40);
  config.head_layers = random.below(5);
  return config;
}

/// One record: up to `longest` tokens (at least 1), any markers.
inline void push_record(BatchBuffer& buffer, Random& random, const ModelConfig& config, std::size_t longest) {
  std::vector<std::uint32_t> ids(1 + random.below(longest));
  for (auto& id : ids) {
    id = static_cast<std::uint32_t>(random.below(config.vocab));
  }
  std::vector<std::uint32_t> markers(random.below(6));
  for (auto& marker : markers) {
    marker = static_cast<std::uint32_t>(random.below(ids.size()));
  }
  (void)static_cast<bool>(buffer.push(ids, markers, static_cast<std::uint8_t>(random.below(ModelConfig::types))));
}

}  // namespace kime::test
