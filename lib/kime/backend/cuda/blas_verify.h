// Whether an algorithm gives a row the same bits whatever the number of rows, the row's place and its neighbours.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kime/backend/cuda/blas_plan.h"
#include "kime/backend/cuda/blas_probe.h"
#include "kime/backend/cuda/slab.h"

namespace kime::cuda {

/// Memory for the products of a plan at its most rows, and the trials that are made in it. Used by one thread, outside captures.
class Trial {
 public:
  /// Errors: `device`.
  static Result<Trial> make(const ProductPlan& plan, StreamHandle stream, std::size_t workspace_bytes);

  /// Each row is computed with the fewest rows first; then, for each number of rows of the plan and several placings of the rows, every
  /// row of the result must have the bits that it had there. False also where the library refuses to compute, and where a result is no
  /// product at all. Errors: `device`.
  [[nodiscard]] Result<bool> passes(const BlasAlgo& algo);
  /// Computes each number of rows once, so that the library has loaded what it needs. Errors: `device`.
  Status warm(const BlasAlgo& algo);

 private:
  Trial(const ProductPlan& plan, StreamHandle stream, std::vector<Slab> slabs, std::size_t workspace_bytes)
      : plan_(&plan), stream_(stream), workspace_bytes_(workspace_bytes), probe_(plan.shape()), slabs_(std::move(slabs)) {}

  Status upload();
  Status repeat(DeviceAddress address, std::size_t have, std::size_t want);
  Status prepare_c(std::size_t rows, std::size_t first);
  Result<bool> compute(const BlasAlgo& algo, std::size_t rows, std::size_t first);
  Result<bool> take_references(const BlasAlgo& algo);
  Result<bool> same(std::size_t rows, std::size_t first);
  Result<std::span<const std::byte>> download(std::size_t row, std::size_t rows);
  Status check(std::string_view function, Code code) { return plan_->blas().device()->check(function, code); }

  enum Part : std::size_t { kA, kW, kC, kAdded, kWorkspace, kParts };
  [[nodiscard]] DeviceAddress at(Part part) const { return slabs_[part].address(); }
  [[nodiscard]] std::size_t c_stride() const { return plan_->shape().ld_c * plan_->shape().out_bytes(); }
  [[nodiscard]] std::size_t c_row() const { return plan_->shape().n * plan_->shape().out_bytes(); }

  const ProductPlan* plan_;
  StreamHandle stream_;
  std::size_t workspace_bytes_;
  Probe probe_;
  std::vector<std::byte> references_;  ///< [Probe::kRows][c_row()]
  std::vector<std::byte> staging_;
  std::vector<Slab> slabs_;  ///< By part. They go first: giving them back waits for copies from and to what is above, after a failure too.
};

}  // namespace kime::cuda
