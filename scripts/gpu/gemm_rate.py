#!/usr/bin/env python3
"""The rate of a large product of float16 matrices by cuBLASLt on the first GPU, as one JSON object: what kime's rates are a share of.

    gemm_rate.py [SIDE]    of the square matrices (8192)

Opens the libraries that kime opens; $KIME_CUDA_DRIVER and $KIME_CUBLASLT name others. Random numbers: zeros would let the clock rise.
"""
import ctypes
import json
import os
import random
import statistics
import struct
import sys
import time
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

CUDA_VERSION = 12040  # whose forms of the functions are asked for
R_32F, R_16F, COMPUTE_32F = 0, 2, 68  # cudaDataType, cublasComputeType_t
TRANSPOSE_A, TRANSPOSED = 3, 1  # CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T: rows times rows, as kime's weights lie
WORKSPACE_BYTES = 64 << 20
PATTERN = 1 << 18  # random numbers, over and over
WARM_UP, ROUNDS, EACH = 5, 9, 10


def library(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            why = error
    sys.exit(f"gemm_rate: {why}")


class Driver:
    def __init__(self):
        self.opened = library([os.environ.get("KIME_CUDA_DRIVER", "libcuda.so.1")])

    def call(self, name, *arguments):
        found = c_void_p()
        if self.opened.cuGetProcAddress(name.encode(), byref(found), CUDA_VERSION, c_uint64(0)) != 0 or not found:
            sys.exit(f"gemm_rate: the driver has no {name}")
        code = ctypes.CFUNCTYPE(c_int, *(type(argument) if not hasattr(argument, "_obj") else c_void_p for argument in arguments))(found.value)(*arguments)
        if code != 0:
            sys.exit(f"gemm_rate: {name}: error {code}")

    def memory(self, size):
        address = c_uint64()
        self.call("cuMemAlloc", byref(address), c_size_t(size))
        return address.value


class Blas:
    def __init__(self):
        named = os.environ.get("KIME_CUBLASLT")
        self.opened = library([named] if named else ["libcublasLt.so.13", "libcublasLt.so.12"])

    def call(self, name, *arguments):
        if not hasattr(self.opened, name):
            sys.exit(f"gemm_rate: {self.opened._name} has no {name}")
        code = getattr(self.opened, name)(*arguments)
        if code != 0:
            sys.exit(f"gemm_rate: {name}: status {code}")

    def layout(self, side):
        made = c_void_p()
        self.call("cublasLtMatrixLayoutCreate", byref(made), c_int(R_16F), c_uint64(side), c_uint64(side), c_int64(side))
        return made


def fill(driver, address, size, stream):
    """Random float16 numbers around 0, doubled until they fill the memory."""
    numbers = random.Random(1)
    pattern = struct.pack(f"<{PATTERN}e", *(numbers.uniform(-1, 1) for _ in range(PATTERN)))
    done = min(size, len(pattern))
    host = ctypes.create_string_buffer(pattern, len(pattern))
    driver.call("cuMemcpyHtoDAsync", c_uint64(address), ctypes.cast(host, c_void_p), c_size_t(done), stream)
    while done < size:
        count = min(done, size - done)
        driver.call("cuMemcpyAsync", c_uint64(address + done), c_uint64(address), c_size_t(count), stream)
        done += count
    driver.call("cuStreamSynchronize", stream)


def main():
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 8192
    driver, blas = Driver(), Blas()
    driver.call("cuInit", c_uint32(0))
    device, context, stream = c_int(), c_void_p(), c_void_p()
    driver.call("cuDeviceGet", byref(device), c_int(0))
    driver.call("cuDevicePrimaryCtxRetain", byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    driver.call("cuStreamCreate", byref(stream), c_uint32(1))
    size = 2 * side * side
    a, b, c, workspace = (driver.memory(bytes_) for bytes_ in (size, size, size, WORKSPACE_BYTES))
    fill(driver, a, size, stream)
    fill(driver, b, size, stream)
    handle, product = c_void_p(), c_void_p()
    blas.call("cublasLtCreate", byref(handle))
    blas.call("cublasLtMatmulDescCreate", byref(product), c_int(COMPUTE_32F), c_int(R_32F))
    blas.call("cublasLtMatmulDescSetAttribute", product, c_int(TRANSPOSE_A), byref(c_int(TRANSPOSED)), c_size_t(4))
    layout, one, zero = blas.layout(side), c_float(1), c_float(0)

    def multiply(times):
        begin = time.perf_counter()
        for _ in range(times):
            blas.call("cublasLtMatmul", handle, product, byref(one), c_void_p(a), layout, c_void_p(b), layout, byref(zero), c_void_p(c), layout,
                      c_void_p(c), layout, None, c_void_p(workspace), c_size_t(WORKSPACE_BYTES), stream)
        driver.call("cuStreamSynchronize", stream)
        return (time.perf_counter() - begin) / times

    multiply(WARM_UP)
    seconds = statistics.median(multiply(EACH) for _ in range(ROUNDS))
    print(json.dumps({"gflops": 2 * side**3 / seconds / 1e9, "side": side, "seconds": seconds, "precision": "f16"}))


main()
