// The fake cuBLASLt as a library. As the real one does, it opens the driver's when it is used, and so gets the same one, with the same
// streams, as who has opened that before.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "kime/backend/cuda/blas_api.h"

namespace kime::cuda {

namespace {

const BlasApi& fake() {
  static const BlasApi* const table = [] {
    void* driver = dlopen(KIME_FAKE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
    void* found = driver == nullptr ? nullptr : dlsym(driver, "kime_fake_cublaslt");
    if (found == nullptr) {
      std::abort();  // it was built with this library
    }
    return reinterpret_cast<const BlasApi* (*)()>(found)();
  }();
  return *table;
}

}  // namespace

extern "C" {

std::size_t cublasLtGetVersion() {
  return fake().get_version();
}
const char* cublasLtGetStatusName(BlasStatus status) {
  return fake().get_status_name(status);
}
BlasStatus cublasLtCreate(BlasHandle* handle) {
  return fake().create(handle);
}
BlasStatus cublasLtDestroy(BlasHandle handle) {
  return fake().destroy(handle);
}
BlasStatus cublasLtMatmulDescCreate(BlasDescHandle* desc, BlasCompute compute, BlasType scale) {
  return fake().desc_create(desc, compute, scale);
}
BlasStatus cublasLtMatmulDescDestroy(BlasDescHandle desc) {
  return fake().desc_destroy(desc);
}
BlasStatus cublasLtMatmulDescSetAttribute(BlasDescHandle desc, BlasDescAttribute attribute, const void* value, std::size_t bytes) {
  return fake().desc_set(desc, attribute, value, bytes);
}
BlasStatus cublasLtMatrixLayoutCreate(BlasLayoutHandle* layout, BlasType type, std::uint64_t rows, std::uint64_t columns,
                                      std::int64_t leading) {
  return fake().layout_create(layout, type, rows, columns, leading);
}
BlasStatus cublasLtMatrixLayoutDestroy(BlasLayoutHandle layout) {
  return fake().layout_destroy(layout);
}
BlasStatus cublasLtMatmulPreferenceCreate(BlasPreferenceHandle* preference) {
  return fake().preference_create(preference);
}
BlasStatus cublasLtMatmulPreferenceDestroy(BlasPreferenceHandle preference) {
  return fake().preference_destroy(preference);
}
BlasStatus cublasLtMatmulPreferenceSetAttribute(BlasPreferenceHandle preference, BlasPreferenceAttribute attribute, const void* value,
                                                std::size_t bytes) {
  return fake().preference_set(preference, attribute, value, bytes);
}
BlasStatus cublasLtMatmulAlgoGetHeuristic(BlasHandle handle, BlasDescHandle desc, BlasLayoutHandle a, BlasLayoutHandle b,
                                          BlasLayoutHandle c, BlasLayoutHandle d, BlasPreferenceHandle preference, int wanted,
                                          BlasHeuristic* found, int* count) {
  return fake().algo_get_heuristic(handle, desc, a, b, c, d, preference, wanted, found, count);
}
BlasStatus cublasLtMatmulAlgoConfigGetAttribute(const BlasAlgo* algo, BlasAlgoAttribute attribute, void* value, std::size_t bytes,
                                                std::size_t* written) {
  return fake().algo_config_get(algo, attribute, value, bytes, written);
}
BlasStatus cublasLtMatmulAlgoCheck(BlasHandle handle, BlasDescHandle desc, BlasLayoutHandle a, BlasLayoutHandle b, BlasLayoutHandle c,
                                   BlasLayoutHandle d, const BlasAlgo* algo, BlasHeuristic* result) {
  return fake().algo_check(handle, desc, a, b, c, d, algo, result);
}
BlasStatus cublasLtMatmul(BlasHandle handle, BlasDescHandle desc, const void* alpha, const void* a, BlasLayoutHandle a_layout,
                          const void* b, BlasLayoutHandle b_layout, const void* beta, const void* c, BlasLayoutHandle c_layout, void* d,
                          BlasLayoutHandle d_layout, const BlasAlgo* algo, void* workspace, std::size_t workspace_bytes,
                          StreamHandle stream) {
  return fake().matmul(handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algo, workspace, workspace_bytes,
                       stream);
}

}  // extern "C"

}  // namespace kime::cuda
