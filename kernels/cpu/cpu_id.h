// What this CPU says of the dot-product instructions, which Highway's targets do not stand for.
#pragma once

namespace kime::kernels {

/// Each is true only where the operating system keeps the registers that it needs, too.
struct CpuId {
  bool avx2_vnni = false;
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx_tile = false;
  bool amx_bf16 = false;
  bool amx_int8 = false;
  /// vdpbf16ps does two FMAs in the time of one; where it does not, FMAs are as fast or faster.
  bool fast_bf16 = false;
};

[[nodiscard]] const CpuId& cpu_id();

}  // namespace kime::kernels
