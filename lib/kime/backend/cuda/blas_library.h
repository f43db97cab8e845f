// cuBLASLt with its functions resolved, and its errors in its own words.
#pragma once

#include <string>
#include <string_view>

#include "kime/backend/cuda/blas_api.h"
#include "kime/backend/cuda/library.h"
#include "kime/base/error.h"

namespace kime::cuda {

struct BlasLibrary {
  BlasApi api;
  std::string version;  ///< "12.8.5"
};

/// Resolves each function. Errors: `device`, one sentence: what `name` lacks.
Result<BlasLibrary> resolve_blas(const Symbols& symbols, const std::string& name);

/// Opens what find_cublaslt() found, for the rest of the process, and resolves it. Errors: `device`: it is gone, or as above.
Result<BlasLibrary> open_blas(const CublasLt& found);

/// A table that is resolved already.
BlasLibrary start_blas(const BlasApi& api);

/// Of kind `device`: "cublasLtMatmul: CUBLAS_STATUS_...".
[[nodiscard]] Error blas_error(const BlasApi& api, std::string_view function, BlasStatus status);

/// Success, or its error.
Status blas_check(const BlasApi& api, std::string_view function, BlasStatus status);

/// Whether a status says that this product is not to be had in this way, and not that something has gone wrong.
[[nodiscard]] constexpr bool is_refusal(BlasStatus status) {
  return status == BlasStatus::not_supported || status == BlasStatus::invalid_value || status == BlasStatus::arch_mismatch;
}

}  // namespace kime::cuda
