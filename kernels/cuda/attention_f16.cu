// Attention of f16 rows.
#include "kernels/cuda/attention_mma.cuh"

using kime::cuda::AttentionParams;
using kime::cuda::kAttentionThreads;

KIME_KERNEL_BLOCKS(kime_attention_f16_32, AttentionParams, kAttentionThreads, 2) {
  kime::cuda::attention_mma<__half, 32>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_f16_64, AttentionParams, kAttentionThreads, 2) {
  kime::cuda::attention_mma<__half, 64>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_f16_96, AttentionParams, kAttentionThreads, 1) {
  kime::cuda::attention_mma<__half, 96>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_f16_128, AttentionParams, kAttentionThreads, 1) {
  kime::cuda::attention_mma<__half, 128>(p);
}
