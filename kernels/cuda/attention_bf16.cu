// Attention of bf16 rows.
#include "kernels/cuda/attention_mma.cuh"

using kime::cuda::AttentionParams;
using kime::cuda::kAttentionThreads;

KIME_KERNEL_BLOCKS(kime_attention_bf16_32, AttentionParams, kAttentionThreads, 2) {
  kime::cuda::attention_mma<__nv_bfloat16, 32>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_bf16_64, AttentionParams, kAttentionThreads, 2) {
  kime::cuda::attention_mma<__nv_bfloat16, 64>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_bf16_96, AttentionParams, kAttentionThreads, 1) {
  kime::cuda::attention_mma<__nv_bfloat16, 96>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_bf16_128, AttentionParams, kAttentionThreads, 1) {
  kime::cuda::attention_mma<__nv_bfloat16, 128>(p);
}
