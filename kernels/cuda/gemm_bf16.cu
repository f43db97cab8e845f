// Products of bf16 matrices.
#include "kernels/cuda/gemm_mma.cuh"

KIME_GEMMS_MMA(__nv_bfloat16, bf16)
