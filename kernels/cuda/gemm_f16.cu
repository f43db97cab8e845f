// Products of f16 matrices.
#include "kernels/cuda/gemm_mma.cuh"

KIME_GEMMS_MMA(__half, f16)
