// Attention of bf16 rows.
#include "kernels/cuda/attention_mma.cuh"

KIME_ATTENTIONS_MMA(__nv_bfloat16, bf16)
