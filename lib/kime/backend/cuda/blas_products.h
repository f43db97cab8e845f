// A device's matrix products by cuBLASLt: only such as have been verified to give each row the same bits in every batch.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kime/backend/cuda/blas_plan.h"
#include "kime/backend/cuda/blas_verdicts.h"

namespace kime::cuda {

/// A product that may be used: its descriptors and its one algorithm for all numbers of rows.
class VerifiedProduct {
 public:
  VerifiedProduct(ProductPlan plan, const BlasAlgo& algo) : plan_(std::move(plan)), algo_(algo) {}
  [[nodiscard]] const ProductPlan& plan() const { return plan_; }
  [[nodiscard]] const BlasAlgo& algo() const { return algo_; }

 private:
  ProductPlan plan_;
  BlasAlgo algo_;
};

struct ProductOptions {
  /// Of each stream. Products are verified with just this much.
  std::size_t workspace_bytes = std::size_t{32} << 20;
  /// Numbers of rows that are verified beside those asked for; the library is asked for algorithms at the most of them. So the choice does
  /// not follow the bucket table, as long as its first algorithms pass.
  std::vector<std::size_t> always = {1, 16, 64, 100, 128, 192, 1024, 8192};
  bool operator==(const ProductOptions&) const = default;
};

/// Thread-safe.
class Products {
 public:
  /// `verdicts` may serve several devices. Errors: `device`.
  static Result<std::unique_ptr<Products>> open(std::shared_ptr<DeviceContext> context, BlasLibrary library,
                                                std::shared_ptr<ProductVerdicts> verdicts, ProductOptions options = {});

  /// The product of this shape for these numbers of rows, at least one; null where no algorithm of the library's passes, so that kime's own
  /// kernel must take its place. The first time it makes all descriptors, verifies in memory that it gives back (for the most rows: a and c
  /// in full), and has the library load what run() needs; later it looks up. Not while this thread captures. Waits for `stream`, of the
  /// device. Who asks for the same meanwhile waits too. What it gives lives as long as this. Errors: `unsupported` for a shape that has no
  /// product, `device`; then the next who asks tries again.
  Result<const VerifiedProduct*> choose(const ProductShape& shape, std::span<const std::size_t> rows, StreamHandle stream);

  /// Enqueues a product with some of the rows that it was chosen for. Allocates, waits for and loads nothing, so that it can be captured.
  /// The workspace is the stream's own. Errors: `device`: rows it was not chosen for, an address that is not aligned, too small a
  /// workspace, the library's.
  Status run(const VerifiedProduct& product, StreamHandle stream, const ProductOperands& operands, std::size_t rows,
             const Workspace& workspace) const;

  [[nodiscard]] std::size_t workspace_bytes() const { return options_.workspace_bytes; }

 private:
  struct Key {
    ProductShape shape;
    std::vector<std::size_t> rows;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): no pointer is there
  };
  struct Entry {
    std::mutex mutex;
    bool decided = false;                    ///< Under it.
    std::optional<VerifiedProduct> product;  ///< Under it until decided.
  };
  Products(std::shared_ptr<BlasContext> blas, std::shared_ptr<ProductVerdicts> verdicts, ProductOptions options, std::string library)
      : blas_(std::move(blas)), verdicts_(std::move(verdicts)), options_(std::move(options)), class_(std::move(library)) {}
  Result<std::optional<VerifiedProduct>> decide(const Key& key, StreamHandle stream) const;
  [[nodiscard]] std::string text(const Key& key) const;

  std::shared_ptr<BlasContext> blas_;
  std::shared_ptr<ProductVerdicts> verdicts_;
  ProductOptions options_;
  std::string class_;  ///< Device, driver and library, in words.
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
};

}  // namespace kime::cuda
