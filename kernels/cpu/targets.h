// Which instruction sets the kernels are compiled for: AVX-512, AVX2, NEON, and a scalar fallback that every CPU runs. Included before
// anything of Highway's by each file that compiles kernels, since Highway reads these macros once.
#pragma once

#ifdef HIGHWAY_HWY_DETECT_TARGETS_H_
#error "include kernels/cpu/targets.h before Highway"
#endif

// One fallback with every compiler: Highway would take its emulated 128-bit vectors where the compiler is new enough.
#define HWY_BROKEN_EMU128 1
// The fallback is compiled even where the baseline has vectors (NEON, or a build for the machine at hand), to be tested against them.
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_NEON | HWY_SCALAR))
