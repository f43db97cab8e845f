// What kernels use of the device, under names that are the same for nvcc and for the host. Only here do inline assembly and the compiler's
// own macros appear. With KIME_CUDA_SHIM the kernels run on the host, over a shim that checks what they do.
//
// Kernels are compiled with -fmad=false: a product and a sum become one FMA only where fma_f32 says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kime::cuda {

/// Chooses an overload by a type.
template <class T>
struct Type {};

inline constexpr unsigned kWarpSize = 32;

}  // namespace kime::cuda

#if defined(KIME_CUDA_SHIM)

#include "tests/cuda/shim/shim.h"

#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// A kernel `name` with one parameter `p` of type Params, in blocks of at most `threads`.
#define KIME_KERNEL(name, Params, threads) extern "C" __global__ void __launch_bounds__(threads) name(const Params p)
/// The same, with registers for `blocks` of them on a multiprocessor.
#define KIME_KERNEL_BLOCKS(name, Params, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Params p)
/// `count` elements of shared memory, aligned to 16 bytes.
#define KIME_SHARED_ARRAY(T, name, count) __shared__ __align__(16) T name[count]

namespace kime::cuda {

/// Stands for a T* into shared memory. Kernels reach its elements through [] so that the shim sees each access; they are read and written
/// whole (no members of elements, no references kept).
template <class T>
using SharedPtr = T*;

/// The dynamic part of shared memory, aligned to 16 bytes.
__device__ __forceinline__ std::byte* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char kime_dynamic_shared[];
  return reinterpret_cast<std::byte*>(kime_dynamic_shared);
}
/// An array of `count` elements in it.
template <class T>
__device__ __forceinline__ SharedPtr<T> shared_view(std::byte* at, std::size_t /*count*/) {
  return reinterpret_cast<T*>(at);
}
/// The address, for cp_async_16 and ldmatrix.
template <class T>
__device__ __forceinline__ T* raw(SharedPtr<T> p) {
  return p;
}

template <class T>
__device__ __forceinline__ T load_global(const T* at) {
  return *at;
}
template <class T>
__device__ __forceinline__ void store_global(T* at, std::type_identity_t<T> value) {
  *at = value;
}

__device__ __forceinline__ float shuffle_xor(float v, int lane_mask) {
  return __shfl_xor_sync(0xFFFFFFFFU, v, lane_mask);
}
__device__ __forceinline__ float shuffle_down(float v, int delta) {
  return __shfl_down_sync(0xFFFFFFFFU, v, static_cast<unsigned>(delta));
}
__device__ __forceinline__ float shuffle(float v, int lane) {
  return __shfl_sync(0xFFFFFFFFU, v, lane);
}
__device__ __forceinline__ std::uint32_t shuffle(std::uint32_t v, int lane) {
  return __shfl_sync(0xFFFFFFFFU, v, lane);
}

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// 16 bytes from global to shared memory, or 16 zeros; both addresses are multiples of 16. They arrive by the wait for their group.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)), "l"(global), "r"(inside ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/// Waits until at most the N newest of this thread's groups are under way. What other threads copied is there after a barrier.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

/// 8 x 8 matrices of 16-bit elements: lanes 8 i to 8 i + 7 name the rows of the i-th, and each lane gets two neighbours of a row of each.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(std::uint32_t (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n" : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(std::uint32_t (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}

/// d += a b of a 16 x 16 and a 16 x 8 tile, in the fragments of mma.m16n8k16.
__device__ __forceinline__ void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Type<__half>) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Type<__nv_bfloat16>) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ float fma_f32(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
__device__ __forceinline__ float sqrt_f32(float x) {
  return __fsqrt_rn(x);
}
__device__ __forceinline__ std::uint32_t bits_of(float x) {
  return __float_as_uint(x);
}
__device__ __forceinline__ float float_of_bits(std::uint32_t x) {
  return __uint_as_float(x);
}

__device__ __forceinline__ float to_float(float x) {
  return x;
}
__device__ __forceinline__ float to_float(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
/// Rounded to the nearest, ties to even.
__device__ __forceinline__ float from_float(float x, Type<float>) {
  return x;
}
__device__ __forceinline__ __half from_float(float x, Type<__half>) {
  return __float2half_rn(x);
}
__device__ __forceinline__ __nv_bfloat16 from_float(float x, Type<__nv_bfloat16>) {
  return __float2bfloat16_rn(x);
}
__device__ __forceinline__ std::uint16_t bits16(__half x) {
  return __half_as_ushort(x);
}
__device__ __forceinline__ std::uint16_t bits16(__nv_bfloat16 x) {
  return __bfloat16_as_ushort(x);
}
__device__ __forceinline__ __half from_bits16(std::uint16_t x, Type<__half>) {
  return __ushort_as_half(x);
}
__device__ __forceinline__ __nv_bfloat16 from_bits16(std::uint16_t x, Type<__nv_bfloat16>) {
  return __ushort_as_bfloat16(x);
}

}  // namespace kime::cuda

#endif

namespace kime::cuda {

template <class T>
__device__ __forceinline__ T min_of(T a, T b) {
  return b < a ? b : a;
}
template <class T>
__device__ __forceinline__ T max_of(T a, T b) {
  return a < b ? b : a;
}

/// Two 16-bit elements in a register, `low` the one of the lower index.
template <class T>
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  return static_cast<std::uint32_t>(bits16(from_float(low, Type<T>()))) | static_cast<std::uint32_t>(bits16(from_float(high, Type<T>())))
                                                                              << 16;
}
template <class T>
__device__ __forceinline__ float2 unpack_pair(std::uint32_t pair) {
  return make_float2(to_float(from_bits16(static_cast<std::uint16_t>(pair & 0xFFFFU), Type<T>())),
                     to_float(from_bits16(static_cast<std::uint16_t>(pair >> 16), Type<T>())));
}

}  // namespace kime::cuda
