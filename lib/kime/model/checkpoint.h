// A checkpoint directory: what the model is, and where its weights are read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/model/calibration.h"
#include "kime/model/config.h"
#include "kime/model/safetensors.h"

namespace kime {

/// An open checkpoint: `rl_agent_config.json`, `encoder/config.json`, and `model.safetensors` or `model.safetensors.index.json` with its
/// shards (design, section 6). As a TensorSource its tensors are those of expected_tensors(config()), in that order, which is the order
/// of the graph's weights. It keeps its files open, so that all reads are of the files that were checked.
class Checkpoint final : public TensorSource {
 public:
  /// Opens and checks everything but the weights' values; reads no weight.
  /// Errors: `input` for what is missing, damaged, or does not fit together, with one message for all missing, extra and misshapen
  /// tensors; `unsupported` for a model of this family that kime cannot run, and for element types other than F32, F16 and BF16.
  static Result<Checkpoint> open(const std::string& directory);

  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] const ModelConfig& config() const { return config_.model; }
  [[nodiscard]] const Calibration& calibration() const { return config_.calibration; }

  [[nodiscard]] std::size_t size() const override { return specs_.size(); }
  [[nodiscard]] DType dtype(std::size_t index) const override { return places_[index].dtype; }
  [[nodiscard]] std::span<const std::size_t> shape(std::size_t index) const override { return specs_[index].shape; }
  [[nodiscard]] const std::string& name(std::size_t index) const { return specs_[index].name; }
  Status read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const override;

  /// A file that holds weights.
  struct WeightFile {
    std::string name;  ///< Within the directory.
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] std::vector<WeightFile> weight_files() const;
  /// How many numbers all the weights are, and the bytes that they take in the files.
  [[nodiscard]] std::uint64_t parameters() const;
  [[nodiscard]] std::uint64_t weight_bytes() const;
  /// How many numbers are of each element type, by the values of DType.
  [[nodiscard]] std::array<std::uint64_t, 3> parameters_by_dtype() const;

 private:
  // Where a weight of specs_ is.
  struct Place {
    std::size_t file = 0;
    std::size_t entry = 0;
    DType dtype = DType::f32;
  };

  Status find_tensors();

  std::string directory_;
  ParsedConfig config_;
  std::vector<TensorSpec> specs_;
  std::vector<Place> places_;
  std::vector<Safetensors> files_;
};

}  // namespace kime
