// Which products cuBLASLt does on a device, decided when a routine is linked.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kime/backend/cuda/blas_products.h"
#include "kime/backend/cuda/lowering.h"
#include "kime/backend/cuda/stream.h"

namespace kime::cuda {

/// What products by cuBLASLt need. A record's bits must not depend on which buckets have been used, so that all of a run's are known first.
struct ProductsConfig {
  std::optional<BlasLibrary> blas;            ///< Without one kernels do all.
  std::vector<std::size_t> rows;              ///< Tokens of each bucket of the run; without any kernels do all.
  std::shared_ptr<ProductVerdicts> verdicts;  ///< Of all devices.
  ProductOptions options;
};

/// Any thread.
class LibraryProducts {
 public:
  LibraryProducts(std::shared_ptr<DeviceContext> context, ProductsConfig config)
      : context_(std::move(context)), config_(std::move(config)) {}

  [[nodiscard]] bool enabled() const { return config_.blas.has_value() && !config_.rows.empty(); }
  /// Null where a kernel must do it. Opens the library for the device first, and verifies what it has not been asked for before; no part of
  /// a capture. Errors: `device`; `unsupported` for a bucket that is not of the run.
  Result<const VerifiedProduct*> choose(const ProductLaunch& product);
  /// Enqueues what choose() gave; may be captured. Errors: `device`.
  Status run(const VerifiedProduct& chosen, StreamHandle stream, const ProductOperands& operands, std::size_t rows,
             DeviceAddress workspace) const;
  /// Of each stream.
  [[nodiscard]] std::size_t workspace_bytes() const { return config_.options.workspace_bytes; }

 private:
  Status open();

  std::shared_ptr<DeviceContext> context_;
  ProductsConfig config_;
  std::mutex mutex_;
  std::unique_ptr<Stream> stream_;      ///< On which products are tried.
  std::unique_ptr<Products> products_;  ///< Stays once it is there.
};

}  // namespace kime::cuda
