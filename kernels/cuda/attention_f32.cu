// Attention of f32 rows.
#include "kernels/cuda/attention_fma.cuh"

#define KIME_ATTENTION_FMA(width)                                                                                 \
  KIME_KERNEL_BLOCKS(kime_attention_f32_##width, kime::cuda::AttentionParams, kime::cuda::kAttentionThreads, 1) { \
    kime::cuda::attention_fma<width>(p);                                                                          \
  }
KIME_ATTENTION_FMA(32)
KIME_ATTENTION_FMA(64)
KIME_ATTENTION_FMA(96)
KIME_ATTENTION_FMA(128)
