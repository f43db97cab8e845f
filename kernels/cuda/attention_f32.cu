// Attention of f32 rows.
#include "kernels/cuda/attention_fma.cuh"

using kime::cuda::AttentionParams;
using kime::cuda::kAttentionThreads;

KIME_KERNEL_BLOCKS(kime_attention_f32_32, AttentionParams, kAttentionThreads, 1) {
  kime::cuda::attention_fma<32>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_f32_64, AttentionParams, kAttentionThreads, 1) {
  kime::cuda::attention_fma<64>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_f32_96, AttentionParams, kAttentionThreads, 1) {
  kime::cuda::attention_fma<96>(p);
}
KIME_KERNEL_BLOCKS(kime_attention_f32_128, AttentionParams, kAttentionThreads, 1) {
  kime::cuda::attention_fma<128>(p);
}
