// A model of a published size with random weights, made on the fly: for benchmarks without a checkpoint.
#pragma once

#include <cstddef>
#include <vector>

#include "kime/base/tensor.h"
#include "kime/model/config.h"

namespace kime {

/// The published `base` size: 22 layers of width 768, every third one full, 2 head layers.
[[nodiscard]] ModelConfig base_config();

/// Weights for a config, the same ones every time: uniform, scaled so that activations stay of order one; norms 1, biases 0. Holds
/// nothing but the shapes.
class RandomTensors final : public TensorSource {
 public:
  explicit RandomTensors(const ModelConfig& config) : specs_(expected_tensors(config)) {}

  [[nodiscard]] std::size_t size() const override { return specs_.size(); }
  [[nodiscard]] DType dtype(std::size_t /*index*/) const override { return DType::f32; }
  [[nodiscard]] std::span<const std::size_t> shape(std::size_t index) const override { return specs_[index].shape; }
  /// Whole elements only, which is how backends read.
  Status read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::vector<TensorSpec> specs_;
};

}  // namespace kime
