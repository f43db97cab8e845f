// kime's own declarations of cuBLASLt against cublasLt.h, where there is one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#if defined(KIME_CUDA_HEADERS) && __has_include(<cublasLt.h>)
#define KIME_CUBLASLT_HEADER
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <cublasLt.h>
#pragma GCC diagnostic pop
#endif

#include "kime/backend/cuda/blas_api.h"
#include "tests/cuda/driver/alike.h"

namespace kime::test {

TEST_CASE("blas: each function of the table has a name, once") {
  const cuda::BlasApi api;
  std::vector<std::string> names;
  const char* end = reinterpret_cast<const char*>(&api);
  cuda::for_each_blas_function(api, [&](const char* name, const auto& member) {
    CHECK(reinterpret_cast<const char*>(&member) == end);  // in the order of the members, none left out
    end = reinterpret_cast<const char*>(&member + 1);
    CHECK(std::ranges::find(names, name) == names.end());
    names.emplace_back(name);
  });
  CHECK(end == reinterpret_cast<const char*>(&api + 1));
}

#ifdef KIME_CUBLASLT_HEADER

namespace {

#define KIME_ALIKE(member, function) static_assert(alike<decltype(cuda::BlasApi::member), decltype(&(function))>(), #function)
KIME_ALIKE(get_version, cublasLtGetVersion);
KIME_ALIKE(get_status_name, cublasLtGetStatusName);
KIME_ALIKE(create, cublasLtCreate);
KIME_ALIKE(destroy, cublasLtDestroy);
KIME_ALIKE(desc_create, cublasLtMatmulDescCreate);
KIME_ALIKE(desc_destroy, cublasLtMatmulDescDestroy);
KIME_ALIKE(desc_set, cublasLtMatmulDescSetAttribute);
KIME_ALIKE(layout_create, cublasLtMatrixLayoutCreate);
KIME_ALIKE(layout_destroy, cublasLtMatrixLayoutDestroy);
KIME_ALIKE(preference_create, cublasLtMatmulPreferenceCreate);
KIME_ALIKE(preference_destroy, cublasLtMatmulPreferenceDestroy);
KIME_ALIKE(preference_set, cublasLtMatmulPreferenceSetAttribute);
KIME_ALIKE(algo_get_heuristic, cublasLtMatmulAlgoGetHeuristic);
KIME_ALIKE(algo_config_get, cublasLtMatmulAlgoConfigGetAttribute);
KIME_ALIKE(algo_check, cublasLtMatmulAlgoCheck);
KIME_ALIKE(matmul, cublasLtMatmul);
#undef KIME_ALIKE

static_assert(alike<cuda::BlasAlgo, cublasLtMatmulAlgo_t>() && alike<cuda::BlasHeuristic, cublasLtMatmulHeuristicResult_t>());
static_assert(offsetof(cuda::BlasHeuristic, algo) == offsetof(cublasLtMatmulHeuristicResult_t, algo));
static_assert(offsetof(cuda::BlasHeuristic, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(cuda::BlasHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(cuda::BlasHeuristic, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

#define KIME_VALUE(own, theirs) static_assert(static_cast<unsigned long long>(own) == static_cast<unsigned long long>(theirs), #theirs)
KIME_VALUE(cuda::BlasStatus::success, CUBLAS_STATUS_SUCCESS);
KIME_VALUE(cuda::BlasStatus::not_initialized, CUBLAS_STATUS_NOT_INITIALIZED);
KIME_VALUE(cuda::BlasStatus::alloc_failed, CUBLAS_STATUS_ALLOC_FAILED);
KIME_VALUE(cuda::BlasStatus::invalid_value, CUBLAS_STATUS_INVALID_VALUE);
KIME_VALUE(cuda::BlasStatus::arch_mismatch, CUBLAS_STATUS_ARCH_MISMATCH);
KIME_VALUE(cuda::BlasStatus::execution_failed, CUBLAS_STATUS_EXECUTION_FAILED);
KIME_VALUE(cuda::BlasStatus::internal_error, CUBLAS_STATUS_INTERNAL_ERROR);
KIME_VALUE(cuda::BlasStatus::not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
KIME_VALUE(cuda::BlasCompute::f32, CUBLAS_COMPUTE_32F);
KIME_VALUE(cuda::BlasType::f32, CUDA_R_32F);
KIME_VALUE(cuda::BlasType::f16, CUDA_R_16F);
KIME_VALUE(cuda::BlasType::bf16, CUDA_R_16BF);
KIME_VALUE(cuda::BlasOperation::none, CUBLAS_OP_N);
KIME_VALUE(cuda::BlasOperation::transpose, CUBLAS_OP_T);
KIME_VALUE(cuda::BlasDescAttribute::transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
KIME_VALUE(cuda::BlasDescAttribute::transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
KIME_VALUE(cuda::BlasPreferenceAttribute::max_workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
KIME_VALUE(cuda::BlasPreferenceAttribute::reduction_scheme_mask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
KIME_VALUE(cuda::BlasPreferenceAttribute::min_alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
KIME_VALUE(cuda::BlasPreferenceAttribute::min_alignment_b, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
KIME_VALUE(cuda::BlasPreferenceAttribute::min_alignment_c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
KIME_VALUE(cuda::BlasPreferenceAttribute::min_alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
KIME_VALUE(cuda::BlasAlgoAttribute::split_k, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
KIME_VALUE(cuda::BlasAlgoAttribute::reduction_scheme, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
KIME_VALUE(cuda::kNoReduction, CUBLASLT_REDUCTION_SCHEME_NONE);
#undef KIME_VALUE

}  // namespace

#endif

}  // namespace kime::test
