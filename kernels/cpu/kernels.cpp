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
#include "kernels/cpu/narrow-inl.h"
#include "kernels/cpu/narrow_tile-inl.h"
#include "kernels/cpu/norm-inl.h"
#include "kernels/cpu/pack-inl.h"
#include "kernels/cpu/prepare-inl.h"

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
inline constexpr Table kTable = {KIME_TARGET_NAME, Pack,     MatMul,    NarrowMatMul, Prepare,      PackNarrow,
                                 ColumnMax,        Attend,   LayerNorm, Embed,        AddRow,       ActFeatures,
                                 GeluArray,        ExpArray, LogArray,  FmaPeak,      &kNarrowBF16, &kNarrowInt8};
#undef KIME_TARGET_NAME

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kernels/cpu/cpu_id.h"

namespace kime::kernels {

namespace {

// Best first.
constexpr struct {
  std::int64_t target;
  const Table* table;
} kCompiled[] = {
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

// A table whose narrow products take dot instructions.
constexpr struct {
  const char* name;
  const char* base;  // the table that it is like otherwise
  const Narrow* (*bf16)();
  const Narrow* (*int8)();
} kDots[] = {
    {"amx", "avx512", amx_bf16, amx_int8},
    {"avx512_dot", "avx512", avx512_bf16, avx512_int8},
    {"avx2_vnni", "avx2", [] { return static_cast<const Narrow*>(nullptr); }, avx2_int8},
};
constexpr std::size_t kMost = std::size(kCompiled) + std::size(kDots);

// All tables in their order; `use` is told each that is compiled, and whether this CPU runs it.
template <class Use>
void each_table(const Use& use) {
  const std::int64_t targets = hwy::SupportedTargets() | HWY_SCALAR;
  for (const auto& compiled : kCompiled) {
    const bool runs = (targets & compiled.target) != 0;
    for (const auto& dot : kDots) {
      if (std::strcmp(dot.base, compiled.table->target) == 0) {
        Table table = *compiled.table;
        table.target = dot.name;
        const Narrow* bf16 = runs ? dot.bf16() : nullptr;
        const Narrow* int8 = runs ? dot.int8() : nullptr;
        table.bf16 = bf16 != nullptr ? bf16 : table.bf16;
        table.int8 = int8 != nullptr ? int8 : table.int8;
        use(table, bf16 != nullptr || int8 != nullptr);
      }
    }
    use(*compiled.table, runs);
  }
}

struct Known {
  Table tables[kMost];  // those that this CPU runs
  const Table* pointers[kMost] = {};
  std::size_t count = 0;
  const char* names[kMost] = {};
  std::size_t compiled = 0;

  Known() {
    each_table([this](const Table& table, bool runs) {
      names[compiled++] = table.target;
      if (runs) {
        tables[count] = table;
        pointers[count] = &tables[count];
        ++count;
      }
    });
  }
};

const Known& known() {
  static const Known all;
  return all;
}

// The best table, but FMAs for bf16 where the dot instruction is no faster: the same bits.
Table best() {
  Table table = *tables().front();
  if (table.bf16 == avx512_bf16() && table.bf16 != nullptr && !cpu_id().fast_bf16) {
    for (const Table* other : tables()) {
      if (std::strcmp(other->target, "avx512") == 0) {
        table.bf16 = other->bf16;
      }
    }
  }
  return table;
}

Table choose() {
  const char* wanted = std::getenv("KIME_CPU_TARGET");
  for (const Table* candidate : tables()) {
    if (wanted != nullptr && std::strcmp(candidate->target, wanted) == 0) {
      return *candidate;
    }
  }
  return best();
}

}  // namespace

std::size_t attention_scratch(std::size_t keys, std::size_t head_width) {
  return (keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock * (head_width + (head_width + 15) / 16 * 16);
}

std::span<const Table* const> tables() {
  return {known().pointers, known().count};
}

std::span<const char* const> compiled_targets() {
  return {known().names, known().compiled};
}

const char* highway_version() {
#define KIME_TEXT(number) #number
#define KIME_VERSION_TEXT(major, minor, patch) KIME_TEXT(major) "." KIME_TEXT(minor) "." KIME_TEXT(patch)
  return KIME_VERSION_TEXT(HWY_MAJOR, HWY_MINOR, HWY_PATCH);
#undef KIME_VERSION_TEXT
#undef KIME_TEXT
}

const Table& table() {
  static const Table chosen = choose();
  return chosen;
}

}  // namespace kime::kernels

#endif  // HWY_ONCE
