// The part of cuBLASLt that kime uses, in declarations of its own, as api.h has the driver's. Names, values and signatures are those of
// cuBLASLt 12.4 and 13; a test holds them against cublasLt.h where there is one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kime/backend/cuda/api.h"

namespace kime::cuda {

/// cublasStatus_t.
enum class BlasStatus : unsigned {
  success = 0,
  not_initialized = 1,
  alloc_failed = 3,
  invalid_value = 7,
  arch_mismatch = 8,
  execution_failed = 13,
  internal_error = 14,
  not_supported = 15,
};

/// cublasComputeType_t: products of what the operands hold, sums in float32.
enum class BlasCompute : unsigned { f32 = 68 };

/// cudaDataType.
enum class BlasType : unsigned { f32 = 0, f16 = 2, bf16 = 14 };

/// cublasOperation_t.
enum class BlasOperation : unsigned { none = 0, transpose = 1 };

/// cublasLtMatmulDescAttributes_t. Those not named keep their defaults: alpha and beta are read from the host, there is no epilogue.
enum class BlasDescAttribute : unsigned { transpose_a = 3, transpose_b = 4 };

/// cublasLtMatmulPreferenceAttributes_t.
enum class BlasPreferenceAttribute : unsigned {
  max_workspace_bytes = 1,    ///< uint64_t
  reduction_scheme_mask = 3,  ///< uint32_t
  min_alignment_a = 5,        ///< uint32_t, as those below
  min_alignment_b = 6,
  min_alignment_c = 7,
  min_alignment_d = 8,
};

/// cublasLtMatmulAlgoConfigAttributes_t.
enum class BlasAlgoAttribute : unsigned {
  split_k = 2,           ///< int32_t
  reduction_scheme = 3,  ///< uint32_t
};

inline constexpr std::uint32_t kNoReduction = 0;  ///< CUBLASLT_REDUCTION_SCHEME_NONE

/// cublasLtMatmulAlgo_t: how a product is computed. Its bytes mean the same to every process with the same library.
struct BlasAlgo {
  std::array<std::uint64_t, 8> data{};
  bool operator==(const BlasAlgo&) const = default;
};

/// cublasLtMatmulHeuristicResult_t.
struct BlasHeuristic {
  BlasAlgo algo;
  std::size_t workspace_bytes = 0;
  BlasStatus state = BlasStatus::success;
  float waves = 0;
  std::array<int, 4> reserved{};
};

/// The library's handles, which point to what nobody here sees.
using BlasHandle = struct BlasContextTag*;
using BlasDescHandle = struct BlasDescTag*;
using BlasLayoutHandle = struct BlasLayoutTag*;
using BlasPreferenceHandle = struct BlasPreferenceTag*;

/// The functions. A member is the function of its name with "cublasLt" before it; for_each_blas_function() says which.
struct BlasApi {
  std::size_t (*get_version)() = nullptr;
  const char* (*get_status_name)(BlasStatus status) = nullptr;
  BlasStatus (*create)(BlasHandle* handle) = nullptr;
  BlasStatus (*destroy)(BlasHandle handle) = nullptr;

  BlasStatus (*desc_create)(BlasDescHandle* desc, BlasCompute compute, BlasType scale) = nullptr;
  BlasStatus (*desc_destroy)(BlasDescHandle desc) = nullptr;
  BlasStatus (*desc_set)(BlasDescHandle desc, BlasDescAttribute attribute, const void* value, std::size_t bytes) = nullptr;
  BlasStatus (*layout_create)(BlasLayoutHandle* layout, BlasType type, std::uint64_t rows, std::uint64_t columns,
                              std::int64_t leading) = nullptr;
  BlasStatus (*layout_destroy)(BlasLayoutHandle layout) = nullptr;
  BlasStatus (*preference_create)(BlasPreferenceHandle* preference) = nullptr;
  BlasStatus (*preference_destroy)(BlasPreferenceHandle preference) = nullptr;
  BlasStatus (*preference_set)(BlasPreferenceHandle preference, BlasPreferenceAttribute attribute, const void* value,
                               std::size_t bytes) = nullptr;

  BlasStatus (*algo_get_heuristic)(BlasHandle handle, BlasDescHandle desc, BlasLayoutHandle a, BlasLayoutHandle b, BlasLayoutHandle c,
                                   BlasLayoutHandle d, BlasPreferenceHandle preference, int wanted, BlasHeuristic* found,
                                   int* count) = nullptr;
  BlasStatus (*algo_config_get)(const BlasAlgo* algo, BlasAlgoAttribute attribute, void* value, std::size_t bytes,
                                std::size_t* written) = nullptr;
  BlasStatus (*algo_check)(BlasHandle handle, BlasDescHandle desc, BlasLayoutHandle a, BlasLayoutHandle b, BlasLayoutHandle c,
                           BlasLayoutHandle d, const BlasAlgo* algo, BlasHeuristic* result) = nullptr;
  BlasStatus (*matmul)(BlasHandle handle, BlasDescHandle desc, const void* alpha, const void* a, BlasLayoutHandle a_layout, const void* b,
                       BlasLayoutHandle b_layout, const void* beta, const void* c, BlasLayoutHandle c_layout, void* d,
                       BlasLayoutHandle d_layout, const BlasAlgo* algo, void* workspace, std::size_t workspace_bytes,
                       StreamHandle stream) = nullptr;
};

/// Calls `with(name, member)` for each function: the name that the library exports, and the member of `api`.
template <class Api, class With>
void for_each_blas_function(Api& api, With&& with) {
  with("cublasLtGetVersion", api.get_version);
  with("cublasLtGetStatusName", api.get_status_name);
  with("cublasLtCreate", api.create);
  with("cublasLtDestroy", api.destroy);
  with("cublasLtMatmulDescCreate", api.desc_create);
  with("cublasLtMatmulDescDestroy", api.desc_destroy);
  with("cublasLtMatmulDescSetAttribute", api.desc_set);
  with("cublasLtMatrixLayoutCreate", api.layout_create);
  with("cublasLtMatrixLayoutDestroy", api.layout_destroy);
  with("cublasLtMatmulPreferenceCreate", api.preference_create);
  with("cublasLtMatmulPreferenceDestroy", api.preference_destroy);
  with("cublasLtMatmulPreferenceSetAttribute", api.preference_set);
  with("cublasLtMatmulAlgoGetHeuristic", api.algo_get_heuristic);
  with("cublasLtMatmulAlgoConfigGetAttribute", api.algo_config_get);
  with("cublasLtMatmulAlgoCheck", api.algo_check);
  with("cublasLtMatmul", api.matmul);
}

}  // namespace kime::cuda
