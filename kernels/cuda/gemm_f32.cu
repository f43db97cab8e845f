// Products of f32 matrices. `linear` writes float32, so there is no `wide`.
#include "kernels/cuda/gemm_fma.cuh"

#define KIME_GEMM_FMA(tile, Block, epilogue)                                                            \
  KIME_KERNEL(kime_gemm_f32_##tile##_##epilogue, kime::cuda::GemmParams, kime::cuda::Block::kThreads) { \
    kime::cuda::gemm_fma<kime::cuda::Block, kime::cuda::GemmEpilogue::epilogue>(p);                     \
  }
#define KIME_GEMM_FMA_TILE(tile, Block) \
  KIME_GEMM_FMA(tile, Block, linear)    \
  KIME_GEMM_FMA(tile, Block, relu)      \
  KIME_GEMM_FMA(tile, Block, gelu)      \
  KIME_GEMM_FMA(tile, Block, geglu)     \
  KIME_GEMM_FMA(tile, Block, add)
KIME_GEMM_FMA_TILE(small, SmallFma)
KIME_GEMM_FMA_TILE(large, LargeFma)
