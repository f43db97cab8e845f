// Products of f32 matrices. `linear` writes float32, so there is no `wide`.
#include "kernels/cuda/gemm_fma.cuh"

using kime::cuda::GemmEpilogue;
using kime::cuda::GemmParams;
using kime::cuda::LargeFma;
using kime::cuda::SmallFma;

KIME_KERNEL(kime_gemm_f32_small_linear, GemmParams, SmallFma::kThreads) {
  kime::cuda::gemm_fma<SmallFma, GemmEpilogue::linear>(p);
}
KIME_KERNEL(kime_gemm_f32_small_relu, GemmParams, SmallFma::kThreads) {
  kime::cuda::gemm_fma<SmallFma, GemmEpilogue::relu>(p);
}
KIME_KERNEL(kime_gemm_f32_small_gelu, GemmParams, SmallFma::kThreads) {
  kime::cuda::gemm_fma<SmallFma, GemmEpilogue::gelu>(p);
}
KIME_KERNEL(kime_gemm_f32_small_geglu, GemmParams, SmallFma::kThreads) {
  kime::cuda::gemm_fma<SmallFma, GemmEpilogue::geglu>(p);
}
KIME_KERNEL(kime_gemm_f32_small_add, GemmParams, SmallFma::kThreads) {
  kime::cuda::gemm_fma<SmallFma, GemmEpilogue::add>(p);
}
KIME_KERNEL(kime_gemm_f32_large_linear, GemmParams, LargeFma::kThreads) {
  kime::cuda::gemm_fma<LargeFma, GemmEpilogue::linear>(p);
}
KIME_KERNEL(kime_gemm_f32_large_relu, GemmParams, LargeFma::kThreads) {
  kime::cuda::gemm_fma<LargeFma, GemmEpilogue::relu>(p);
}
KIME_KERNEL(kime_gemm_f32_large_gelu, GemmParams, LargeFma::kThreads) {
  kime::cuda::gemm_fma<LargeFma, GemmEpilogue::gelu>(p);
}
KIME_KERNEL(kime_gemm_f32_large_geglu, GemmParams, LargeFma::kThreads) {
  kime::cuda::gemm_fma<LargeFma, GemmEpilogue::geglu>(p);
}
KIME_KERNEL(kime_gemm_f32_large_add, GemmParams, LargeFma::kThreads) {
  kime::cuda::gemm_fma<LargeFma, GemmEpilogue::add>(p);
}
