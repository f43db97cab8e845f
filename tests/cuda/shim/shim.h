// kernels/cuda/device.h for the host: the same names, over a block of fibers.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tests/cuda/shim/block.h"
#include "tests/cuda/shim/launch.h"
#include "tests/cuda/shim/shared.h"
#include "tests/cuda/shim/types.h"
#include "tests/cuda/shim/warp.h"

#define __global__
#define __device__
#define __forceinline__ inline

#define KIME_KERNEL(name, Params, threads)                                                    \
  extern "C" void name(const Params p);                                                       \
  namespace {                                                                                 \
  const ::kime::cuda::shim::Registered name##_registered(#name, &name, threads); /* NOLINT */ \
  }                                                                                           \
  extern "C" void name(const Params p)

#define KIME_KERNEL_BLOCKS(name, Params, threads, blocks) KIME_KERNEL(name, Params, threads)

#define KIME_SHARED_ARRAY(T, name, count)                                                                                \
  const ::kime::cuda::SharedPtr<T> name = [] {                                                                           \
    static constexpr ::kime::cuda::shim::Site site{#name};                                                               \
    return ::kime::cuda::SharedPtr<T>(                                                                                   \
        static_cast<T*>(::kime::cuda::shim::Block::current().shared(site, sizeof(T) * static_cast<std::size_t>(count))), \
        static_cast<std::size_t>(count));                                                                                \
  }()

inline void __syncthreads() {
  kime::cuda::shim::Block::current().barrier();
}
inline void __syncwarp() {
  kime::cuda::shim::Block::current().sync_warp();
}

namespace kime::cuda {

template <class T>
using SharedPtr = shim::SharedPtr<T>;

inline std::byte* dynamic_shared() {
  return shim::Block::current().dynamic();
}
template <class T>
SharedPtr<T> shared_view(std::byte* at, std::size_t count) {
  return SharedPtr<T>(reinterpret_cast<T*>(at), count);
}
template <class T>
T* raw(const SharedPtr<T>& p) {
  return p.get();
}

template <class T>
T load_global(const T* at) {
  shim::Block::current().check_global(at, sizeof(T), alignof(T), false);
  return *at;
}
template <class T>
void store_global(T* at, std::type_identity_t<T> value) {
  shim::Block::current().check_global(at, sizeof(T), alignof(T), true);
  *at = value;
}

inline float shuffle_xor(float v, int lane_mask) {
  return shim::exchange(v, shim::lane_id() ^ static_cast<unsigned>(lane_mask), "shuffle_xor");
}
inline float shuffle_down(float v, int delta) {
  const unsigned from = shim::lane_id() + static_cast<unsigned>(delta);
  return shim::exchange(v, from < shim::kWarp ? from : shim::lane_id(), "shuffle_down");
}
inline float shuffle(float v, int lane) {
  return shim::exchange(v, static_cast<unsigned>(lane) % shim::kWarp, "shuffle");
}
inline std::uint32_t shuffle(std::uint32_t v, int lane) {
  return std::bit_cast<std::uint32_t>(shuffle(std::bit_cast<float>(v), lane));
}

inline void cp_async_16(void* shared, const void* global, bool inside) {
  shim::Block::current().copy_async(shared, global, inside);
}
inline void cp_async_commit() {
  shim::Block::current().commit_copies();
}
template <int N>
void cp_async_wait() {
  shim::Block::current().wait_for_copies(N);
}

inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) {
  shim::load_matrices(r, 4, row, false);
}
inline void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row) {
  shim::load_matrices(r, 4, row, true);
}
inline void ldmatrix_x2(std::uint32_t (&r)[2], const void* row) {
  shim::load_matrices(r, 2, row, false);
}
inline void ldmatrix_x2_trans(std::uint32_t (&r)[2], const void* row) {
  shim::load_matrices(r, 2, row, true);
}

inline void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Type<__half> /*type*/) {
  shim::multiply<__half>(d, a, b);
}
inline void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Type<__nv_bfloat16> /*type*/) {
  shim::multiply<__nv_bfloat16>(d, a, b);
}

inline float fma_f32(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float sqrt_f32(float x) {
  return std::sqrt(x);
}
inline std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
inline float float_of_bits(std::uint32_t x) {
  return std::bit_cast<float>(x);
}

inline float to_float(float x) {
  return x;
}
inline float to_float(__half x) {
  return shim::float_of(x);
}
inline float to_float(__nv_bfloat16 x) {
  return shim::float_of(x);
}
inline float from_float(float x, Type<float> /*type*/) {
  return x;
}
inline __half from_float(float x, Type<__half> /*type*/) {
  return shim::half_of(x);
}
inline __nv_bfloat16 from_float(float x, Type<__nv_bfloat16> /*type*/) {
  return shim::bfloat16_of(x);
}
inline std::uint16_t bits16(__half x) {
  return x.bits;
}
inline std::uint16_t bits16(__nv_bfloat16 x) {
  return x.bits;
}
inline __half from_bits16(std::uint16_t x, Type<__half> /*type*/) {
  return {x};
}
inline __nv_bfloat16 from_bits16(std::uint16_t x, Type<__nv_bfloat16> /*type*/) {
  return {x};
}

}  // namespace kime::cuda
