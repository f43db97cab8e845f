#include "kernels/cpu/kernels.h"

#include "kernels/cpu/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "kernels/cpu/act_features-inl.h"
#include "kernels/cpu/attention-inl.h"
#include "kernels/cpu/embed-inl.h"
#include "kernels/cpu/fma_peak-inl.h"
#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/norm-inl.h"
#include "kernels/cpu/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
#define KIME_TARGET_NAME "avx512"
#elif HWY_TARGET == HWY_AVX2
#define KIME_TARGET_NAME "avx2"
#elif HWY_TARGET == HWY_NEON
#define KIME_TARGET_NAME "neon"
#else
#define KIME_TARGET_NAME "scalar"
#endif
inline constexpr Table kTable = {KIME_TARGET_NAME, Pack,        MatMul,    Attend,   LayerNorm, Embed,
                                 AddRow,           ActFeatures, GeluArray, ExpArray, LogArray,  FmaPeak};
#undef KIME_TARGET_NAME

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <cstdlib>
#include <cstring>

namespace kime::kernels {

namespace {

struct Compiled {
  std::int64_t target;
  const Table* table;
};

// Best first.
constexpr Compiled kCompiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, &N_AVX3::kTable},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, &N_AVX2::kTable},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, &N_NEON::kTable},
#endif
    {HWY_SCALAR, &N_SCALAR::kTable},
};
constexpr std::size_t kCount = sizeof(kCompiled) / sizeof(kCompiled[0]);

struct Supported {
  const Table* tables[kCount] = {};
  std::size_t count = 0;

  Supported() {
    const std::int64_t targets = hwy::SupportedTargets() | HWY_SCALAR;
    for (const Compiled& compiled : kCompiled) {
      if ((targets & compiled.target) != 0) {
        tables[count++] = compiled.table;
      }
    }
  }
};

struct Names {
  const char* names[kCount] = {};

  constexpr Names() {
    for (std::size_t i = 0; i < kCount; ++i) {
      names[i] = kCompiled[i].table->target;
    }
  }
};

const Table& choose() {
  const char* wanted = std::getenv("KIME_CPU_TARGET");
  for (const Table* candidate : tables()) {
    if (wanted != nullptr && std::strcmp(candidate->target, wanted) == 0) {
      return *candidate;
    }
  }
  return *tables().front();
}

}  // namespace

std::size_t attention_scratch(std::size_t keys, std::size_t head_width) {
  return (keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock * (head_width + (head_width + 15) / 16 * 16);
}

std::span<const Table* const> tables() {
  static const Supported supported;
  return {supported.tables, supported.count};
}

std::span<const char* const> compiled_targets() {
  static constexpr Names compiled;
  return compiled.names;
}

const char* highway_version() {
#define KIME_TEXT(number) #number
#define KIME_VERSION_TEXT(major, minor, patch) KIME_TEXT(major) "." KIME_TEXT(minor) "." KIME_TEXT(patch)
  return KIME_VERSION_TEXT(HWY_MAJOR, HWY_MINOR, HWY_PATCH);
#undef KIME_VERSION_TEXT
#undef KIME_TEXT
}

const Table& table() {
  static const Table& chosen = choose();
  return chosen;
}

}  // namespace kime::kernels

#endif  // HWY_ONCE
