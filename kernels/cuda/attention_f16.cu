// Attention of f16 rows.
#include "kernels/cuda/attention_mma.cuh"

KIME_ATTENTIONS_MMA(__half, f16)
