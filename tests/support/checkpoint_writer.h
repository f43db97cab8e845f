// Small checkpoints for tests, in the published directory format, with random weights. Free of the library, so that what reads them is
// held against names and shapes that it did not make itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace kime::test {

/// A directory of its own under the system's place for temporary files, removed with all that is in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Writes a file anew, and the directories on the way to it.
void write_file(const std::string& path, const std::string& content);
[[nodiscard]] std::string read_file(const std::string& path);

/// A weight. Its values have at most 8 significant bits and lie within the normal numbers of float16, so that every element type holds
/// them exactly.
struct TestTensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
};

/// The bytes of a safetensors file with this header, padded to a multiple of 8, and data.
[[nodiscard]] std::string safetensors_file(std::string header, const std::string& data);
/// The bytes of a safetensors file with these tensors, end to end in this order; dtype is "F32", "F16" or "BF16".
[[nodiscard]] std::string safetensors_file(std::span<const TestTensor> tensors, const std::string& dtype);

/// What a checkpoint is made from. The defaults are a tiny model with both kinds of layer.
struct TestModel {
  std::size_t vocab = 50;
  std::size_t hidden = 16;
  std::size_t intermediate = 24;
  std::size_t heads = 2;
  std::vector<bool> full_layers = {true, false, true};
  std::size_t window = 6;
  float norm_eps = 1e-5F;
  float theta_full = 160000;
  float theta_local = 10000;
  std::size_t head_layers = 2;
  std::string dtype = "F32";
  std::size_t shards = 1;    ///< With one, model.safetensors; else shards and their index.
  bool older_names = false;  ///< global_rope_theta and local_rope_theta rather than rope_parameters.
  std::uint64_t seed = 1;

  [[nodiscard]] nlohmann::json encoder_config() const;
  [[nodiscard]] nlohmann::json agent_config() const;
  /// Every weight, in no order that matters. The same seed gives the same values.
  [[nodiscard]] std::vector<TestTensor> tensors() const;
};

/// A random small model: 1 to 3 heads of width 8 to 64 (in the head layers 8 to 120), 1 to 4 layers of any pattern, 0 to 4 head layers, any
/// element type, any naming.
[[nodiscard]] TestModel random_model(std::uint64_t seed);

/// Writes the whole directory.
void write_checkpoint(const std::string& directory, const TestModel& model);

}  // namespace kime::test
