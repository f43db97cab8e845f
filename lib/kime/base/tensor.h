// Weights as they sit in a checkpoint, and where a backend reads them from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kime/base/error.h"

namespace kime {

/// Element types that a checkpoint may hold.
enum class DType : std::uint8_t { f32, f16, bf16 };

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::f32 ? 4 : 2;
}

/// The name in a safetensors header: "F32", "F16" or "BF16".
[[nodiscard]] std::string_view to_string(DType dtype);

/// Of a tensor of that shape.
[[nodiscard]] constexpr std::size_t elements(std::span<const std::size_t> shape) {
  std::size_t count = 1;
  for (const std::size_t size : shape) {
    count *= size;
  }
  return count;
}

/// A weight before a backend converts it. A view: who made it keeps shape and bytes alive.
struct HostTensor {
  DType dtype = DType::f32;
  std::span<const std::size_t> shape;  ///< Outermost first.
  std::span<const std::byte> bytes;    ///< Little endian, row major.
};

/// An ordered list of weights that can be read in pieces, so that a backend converts a checkpoint straight into its own layout
/// without a second copy in memory. All members may be called from several threads at once.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// How many weights there are.
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// The element type of weight `index`.
  [[nodiscard]] virtual DType dtype(std::size_t index) const = 0;
  /// The shape of weight `index`, outermost first; lives as long as the source.
  [[nodiscard]] virtual std::span<const std::size_t> shape(std::size_t index) const = 0;
  /// Copies bytes [offset, offset + out.size()) of weight `index` to `out`.
  /// Errors: `input` when the file fails or has become shorter, naming file and tensor.
  virtual Status read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Weights that are in memory already. Views the tensors; does not own them.
class HostTensors final : public TensorSource {
 public:
  explicit HostTensors(std::span<const HostTensor> tensors) : tensors_(tensors) {}

  [[nodiscard]] std::size_t size() const override { return tensors_.size(); }
  [[nodiscard]] DType dtype(std::size_t index) const override { return tensors_[index].dtype; }
  [[nodiscard]] std::span<const std::size_t> shape(std::size_t index) const override { return tensors_[index].shape; }
  Status read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::span<const HostTensor> tensors_;
};

}  // namespace kime
