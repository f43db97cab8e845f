// Products of f16 matrices.
#include "kernels/cuda/gemm_mma.cuh"

using kime::cuda::GemmEpilogue;
using kime::cuda::GemmParams;
using kime::cuda::LargeMma;
using kime::cuda::SmallMma;

KIME_KERNEL(kime_gemm_f16_small_linear, GemmParams, SmallMma::kThreads) {
  kime::cuda::gemm_mma<__half, SmallMma, GemmEpilogue::linear>(p);
}
KIME_KERNEL(kime_gemm_f16_small_relu, GemmParams, SmallMma::kThreads) {
  kime::cuda::gemm_mma<__half, SmallMma, GemmEpilogue::relu>(p);
}
KIME_KERNEL(kime_gemm_f16_small_gelu, GemmParams, SmallMma::kThreads) {
  kime::cuda::gemm_mma<__half, SmallMma, GemmEpilogue::gelu>(p);
}
KIME_KERNEL(kime_gemm_f16_small_geglu, GemmParams, SmallMma::kThreads) {
  kime::cuda::gemm_mma<__half, SmallMma, GemmEpilogue::geglu>(p);
}
KIME_KERNEL(kime_gemm_f16_small_wide, GemmParams, SmallMma::kThreads) {
  kime::cuda::gemm_mma<__half, SmallMma, GemmEpilogue::wide>(p);
}
KIME_KERNEL(kime_gemm_f16_small_add, GemmParams, SmallMma::kThreads) {
  kime::cuda::gemm_mma<__half, SmallMma, GemmEpilogue::add>(p);
}
KIME_KERNEL(kime_gemm_f16_large_linear, GemmParams, LargeMma::kThreads) {
  kime::cuda::gemm_mma<__half, LargeMma, GemmEpilogue::linear>(p);
}
KIME_KERNEL(kime_gemm_f16_large_relu, GemmParams, LargeMma::kThreads) {
  kime::cuda::gemm_mma<__half, LargeMma, GemmEpilogue::relu>(p);
}
KIME_KERNEL(kime_gemm_f16_large_gelu, GemmParams, LargeMma::kThreads) {
  kime::cuda::gemm_mma<__half, LargeMma, GemmEpilogue::gelu>(p);
}
KIME_KERNEL(kime_gemm_f16_large_geglu, GemmParams, LargeMma::kThreads) {
  kime::cuda::gemm_mma<__half, LargeMma, GemmEpilogue::geglu>(p);
}
KIME_KERNEL(kime_gemm_f16_large_wide, GemmParams, LargeMma::kThreads) {
  kime::cuda::gemm_mma<__half, LargeMma, GemmEpilogue::wide>(p);
}
KIME_KERNEL(kime_gemm_f16_large_add, GemmParams, LargeMma::kThreads) {
  kime::cuda::gemm_mma<__half, LargeMma, GemmEpilogue::add>(p);
}
