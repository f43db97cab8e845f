#include "kernels/cpu/cpu_id.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#include <cstring>
#endif

namespace kime::kernels {

namespace {

#if defined(__x86_64__)

constexpr bool bit(std::uint32_t word, unsigned index) {
  return (word >> index & 1U) != 0;
}

// The register sets that the operating system saves (XCR0).
std::uint64_t saved_registers() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

bool is_amd() {
  std::uint32_t a = 0;
  std::uint32_t vendor[3] = {};
  __get_cpuid(0, &a, &vendor[0], &vendor[2], &vendor[1]);
  return std::memcmp(vendor, "AuthenticAMD", sizeof(vendor)) == 0;
}

CpuId read() {
  CpuId id;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  std::uint32_t d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !bit(c, 27)) {  // OSXSAVE
    return id;
  }
  const std::uint64_t saved = saved_registers();
  const bool ymm = (saved & 0x6) == 0x6;
  const bool zmm = ymm && (saved & 0xE0) == 0xE0;
  const bool tiles = zmm && (saved & 0x60000) == 0x60000;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) {
    return id;
  }
  const std::uint32_t subleaves = a;
  id.avx512_vnni = zmm && bit(c, 11);
  id.amx_bf16 = tiles && bit(d, 22);
  id.amx_tile = tiles && bit(d, 24);
  id.amx_int8 = tiles && bit(d, 25);
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
    id.avx2_vnni = ymm && bit(a, 4);
    id.avx512_bf16 = zmm && bit(a, 5);
  }
  // Zen 4 and 5 start two vdpbf16ps a cycle, Sapphire Rapids and its successors one every other cycle or so.
  id.fast_bf16 = id.avx512_bf16 && is_amd();
  return id;
}

#else

CpuId read() {
  return {};
}

#endif

}  // namespace

const CpuId& cpu_id() {
  static const CpuId id = read();
  return id;
}

}  // namespace kime::kernels
