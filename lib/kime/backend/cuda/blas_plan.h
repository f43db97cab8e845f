// A matrix product of one weight shape as cuBLASLt is told of it: its descriptors, for each number of rows, and its candidates.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kime/backend/cuda/blas_library.h"
#include "kime/backend/cuda/device_context.h"

namespace kime::cuda {

/// What operands are made of. Products of f32 never come here: the library may split them.
enum class ProductType : std::uint8_t { f16, bf16 };
/// narrow: the operands' type, and what c held is not looked at. added: float32, added to what c holds.
enum class ProductOut : std::uint8_t { narrow, added };

/// c[m][n] = a[m][k] w[n][k]^T, sums in float32: all that an algorithm may depend on, but m. Leading dimensions are in elements.
struct ProductShape {
  ProductType type = ProductType::f16;
  ProductOut out = ProductOut::narrow;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
  std::uint32_t ld_a = 0;                                 ///< k or more.
  std::uint32_t ld_c = 0;                                 ///< n or more.
  auto operator<=>(const ProductShape&) const = default;  // NOLINT(modernize-use-nullptr): no pointer is there

  [[nodiscard]] std::size_t out_bytes() const { return out == ProductOut::narrow ? kNarrowBytes : sizeof(float); }
  /// "bf16 2304x768, rows of 768 and 2304, narrow"
  [[nodiscard]] std::string text() const;

  static constexpr std::size_t kNarrowBytes = 2;
};

/// Operands, and the rows of a, w and c, begin on multiples of so many bytes; a workspace on multiples of 256.
inline constexpr std::size_t kProductAlignment = 16;

struct ProductOperands {
  DeviceAddress a = 0;
  DeviceAddress w = 0;
  DeviceAddress c = 0;
};

struct Workspace {
  DeviceAddress address = 0;
  std::size_t bytes = 0;
};

/// cuBLASLt's handle for a device, owned.
class BlasContext {
 public:
  /// Errors: `device`.
  static Result<std::shared_ptr<BlasContext>> make(std::shared_ptr<DeviceContext> context, BlasLibrary library);
  BlasContext(std::shared_ptr<DeviceContext> context, BlasLibrary library, BlasHandle handle)
      : context_(std::move(context)), library_(std::move(library)), handle_(handle) {}
  BlasContext(const BlasContext&) = delete;
  BlasContext& operator=(const BlasContext&) = delete;
  ~BlasContext();

  [[nodiscard]] const std::shared_ptr<DeviceContext>& device() const { return context_; }
  [[nodiscard]] const BlasApi& api() const { return library_.api; }
  [[nodiscard]] const std::string& version() const { return library_.version; }
  [[nodiscard]] BlasHandle handle() const { return handle_; }

 private:
  std::shared_ptr<DeviceContext> context_;
  BlasLibrary library_;
  BlasHandle handle_;
};

/// One of the library's objects, owned.
template <class Handle>
class BlasObject {
 public:
  using Destroy = BlasStatus (*)(Handle);
  BlasObject() = default;
  BlasObject(Handle handle, Destroy destroy) : handle_(handle), destroy_(destroy) {}
  BlasObject(BlasObject&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
  BlasObject& operator=(BlasObject&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  BlasObject(const BlasObject&) = delete;
  BlasObject& operator=(const BlasObject&) = delete;
  ~BlasObject() {
    if (handle_ != nullptr) {
      static_cast<void>(destroy_(handle_));
    }
  }
  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  Destroy destroy_ = nullptr;
};

/// Immutable once made: used from several threads.
class ProductPlan {
 public:
  /// Makes all descriptors. Errors: `unsupported` for a shape that has no product; `device`.
  static Result<ProductPlan> make(std::shared_ptr<BlasContext> blas, const ProductShape& shape, std::span<const std::size_t> rows);

  [[nodiscard]] const ProductShape& shape() const { return shape_; }
  /// In ascending order.
  [[nodiscard]] std::vector<std::size_t> rows() const;

  /// Algorithms that the library would take for `rows`, which is of the plan's, best first; none that splits k, or that wants a larger
  /// workspace. Errors: `device`.
  [[nodiscard]] Result<std::vector<BlasAlgo>> candidates(std::size_t rows, std::size_t workspace_bytes) const;
  /// Whether the library takes an algorithm for all the plan's rows, with this workspace. Errors: `device`.
  [[nodiscard]] Result<bool> accepts(const BlasAlgo& algo, std::size_t workspace_bytes) const;
  /// Enqueues the product. The stream's context is current. `rows` is of the plan's.
  [[nodiscard]] BlasStatus enqueue(const BlasAlgo& algo, StreamHandle stream, const ProductOperands& operands, std::size_t rows,
                                   const Workspace& workspace) const;
  [[nodiscard]] bool has(std::size_t rows) const { return layouts_.contains(rows); }
  [[nodiscard]] BlasContext& blas() const { return *blas_; }

 private:
  using Layout = BlasObject<BlasLayoutHandle>;
  struct Layouts {
    Layout a;
    Layout c;
  };
  ProductPlan(std::shared_ptr<BlasContext> blas, const ProductShape& shape) : blas_(std::move(blas)), shape_(shape) {}
  Status describe();
  Result<Layout> layout(BlasType type, std::uint64_t rows, std::uint64_t columns, std::uint32_t leading) const;

  std::shared_ptr<BlasContext> blas_;
  ProductShape shape_;
  BlasObject<BlasDescHandle> desc_;
  Layout w_;
  std::map<std::size_t, Layouts> layouts_;  ///< By rows.
};

}  // namespace kime::cuda
