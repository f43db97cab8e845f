// Rows of float32 as the narrow products read them (narrow.h has the forms), and weights packed in them.
#if defined(KIME_KERNELS_CPU_PREPARE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KIME_KERNELS_CPU_PREPARE_INL_H_
#undef KIME_KERNELS_CPU_PREPARE_INL_H_
#else
#define KIME_KERNELS_CPU_PREPARE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/embed-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/rotate-inl.h"
#include "kernels/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kime::kernels {
namespace HWY_NAMESPACE {

// To bfloat16, nearest, ties to even, by integers: the control word and the target have no say. A NaN stays one.
HWY_INLINE Vec RoundBF16(Vec x) {
  const SignedTag d;
  const auto bits = hn::BitCast(d, x);
  const auto magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFF));
  const auto odd = hn::And(hn::BitCast(d, hn::ShiftRight<16>(hn::BitCast(WordTag(), bits))), hn::Set(d, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(d, 0x400000));
  const auto kept = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7F800000)), quiet, rounded);
  return hn::BitCast(Tag(), hn::And(kept, hn::Set(d, -0x10000)));
}

// The upper halves of 32 floats as 32 words.
HWY_INLINE void StoreUpperHalves(const F16& low, const F16& high, std::uint16_t* words) {
  const auto store = [](Vec v, std::uint16_t* out) HWY_ATTR {
    const auto upper = hn::ShiftRight<16>(hn::BitCast(WordTag(), v));
    hn::StoreU(hn::DemoteTo(HalfWordTag(), hn::BitCast(SignedTag(), upper)), HalfWordTag(), out);
  };
  for (std::size_t i = 0; i < kParts; ++i) {
    store(low.v[i], words + i * kLanes);
    store(high.v[i], words + 16 + i * kLanes);
  }
}

// Where the words of Form::bf16_chains come from.
HWY_ALIGN inline constexpr std::uint16_t kChainOrder[32] = {2, 0, 6, 4, 10, 8, 14, 12, 18, 16, 22, 20, 26, 24, 30, 28,
                                                            3, 1, 7, 5, 11, 9, 15, 13, 19, 17, 23, 21, 27, 25, 31, 29};

HWY_INLINE void StoreChains(const F16& low, const F16& high, std::uint16_t* out) {
  HWY_ALIGN std::uint16_t words[32];
  StoreUpperHalves(low, high, words);
#if HWY_TARGET == HWY_AVX3
  _mm512_storeu_si512(out, _mm512_permutexvar_epi16(_mm512_load_si512(kChainOrder), _mm512_load_si512(words)));
#else
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = words[kChainOrder[i]];
  }
#endif
}

// The even ones of 32 floats, then the odd ones.
HWY_INLINE void StoreEvenOdd(const F16& low, const F16& high, float* out) {
  const auto of = [&](std::size_t i) HWY_ATTR { return i < kParts ? low.v[i] : high.v[i - kParts]; };
  for (std::size_t i = 0; i < kParts; ++i) {
#if HWY_TARGET == HWY_SCALAR
    hn::StoreU(of(2 * i), Tag(), out + i * kLanes);
    hn::StoreU(of(2 * i + 1), Tag(), out + 16 + i * kLanes);
#else
    hn::StoreU(hn::ConcatEven(Tag(), of(2 * i + 1), of(2 * i)), Tag(), out + i * kLanes);
    hn::StoreU(hn::ConcatOdd(Tag(), of(2 * i + 1), of(2 * i)), Tag(), out + 16 + i * kLanes);
#endif
  }
}

inline void PrepareRowBF16(const float* in, std::size_t k, Form form, std::byte* out) {
  const auto round = [](Vec v) HWY_ATTR { return RoundBF16(v); };
  for (std::size_t i = 0; i < k; i += 32) {
    const F16 low = Map(round, LoadN16(in + i, k - i));
    const F16 high = Map(round, k - i > 16 ? LoadN16(in + i + 16, k - i - 16) : Zero16());
    if (form == Form::bf16_floats) {
      StoreEvenOdd(low, high, reinterpret_cast<float*>(out) + i);
    } else if (form == Form::bf16_pairs) {
      StoreUpperHalves(low, high, reinterpret_cast<std::uint16_t*>(out) + i);
    } else {
      StoreChains(low, high, reinterpret_cast<std::uint16_t*>(out) + i);
    }
  }
}

// The largest magnitude of x[0, k), a multiple of 16, as bits: a NaN is larger than all others.
HWY_INLINE std::int32_t LargestBits(const float* x, std::size_t k) {
  const SignedTag d;
  hn::Vec<SignedTag> largest[kParts];
  for (std::size_t p = 0; p < kParts; ++p) {
    largest[p] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < k; i += 16) {
    for (std::size_t p = 0; p < kParts; ++p) {
      const auto bits = hn::BitCast(d, hn::LoadU(Tag(), x + i + p * kLanes));
      largest[p] = hn::Max(largest[p], hn::And(bits, hn::Set(d, 0x7FFFFFFF)));
    }
  }
  for (std::size_t p = 1; p < kParts; ++p) {
    largest[0] = hn::Max(largest[0], largest[p]);
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest[0]));
}

inline void StoreRounded(const F16& x, Form form, std::byte* out) {
  // Adding 1.5 * 2^23 rounds to an integer, ties to even, which then stands in the low bits.
  const SignedTag d;
  for (std::size_t p = 0; p < kParts; ++p) {
    const auto shifted = hn::Add(x.v[p], hn::Set(Tag(), 0x1.8p23F));
    const auto q = hn::Sub(hn::BitCast(d, shifted), hn::Set(d, 0x4B400000));
    if (form == Form::int16) {
      const hn::Rebind<std::int16_t, Tag> words;
      hn::StoreU(hn::DemoteTo(words, q), words, reinterpret_cast<std::int16_t*>(out) + p * kLanes);
    } else if (form == Form::int8) {
      const hn::Rebind<std::int8_t, Tag> bytes;
      hn::StoreU(hn::DemoteTo(bytes, q), bytes, reinterpret_cast<std::int8_t*>(out) + p * kLanes);
    } else {
      const hn::Rebind<std::uint8_t, Tag> bytes;
      hn::StoreU(hn::DemoteTo(bytes, hn::Add(q, hn::Set(d, 128))), bytes, reinterpret_cast<std::uint8_t*>(out) + p * kLanes);
    }
  }
}

// Returns the row's scale: a NaN where an element is not finite, which makes what it multiplies one.
inline float PrepareRowInt8(const float* in, const float* channels, std::size_t k, std::size_t padded, Form form, std::byte* out) {
  HWY_ALIGN float row[kMaxNarrowK + 64];
  for (std::size_t i = 0; i < padded; i += 16) {
    F16 x = i < k ? LoadN16(in + i, k - i) : Zero16();
    if (channels != nullptr && i < k) {
      x = Mul(x, LoadN16(channels + i, k - i));
    }
    Store16(x, row + i);
  }
  RotateRow(row, k);
  const std::int32_t bits = LargestBits(row, padded);
  float largest = __builtin_bit_cast(float, bits);
  float inverse = 0;
  const bool finite = bits < 0x7F800000;
  if (finite && largest >= 0x1p-120F) {  // below, the inverse would not be finite, and all rounds to 0
    inverse = 127.0F / largest;
  }
  const F16 scale = Set16(inverse);
  for (std::size_t i = 0; i < padded; i += 16) {
    StoreRounded(finite ? Mul(Load16(row + i), scale) : Zero16(), form, out + i * bytes_of(form));
  }
  return finite ? (inverse == 0 ? 0.0F : largest / 127.0F) : __builtin_nanf("");
}

inline float PrepareRow(const float* in, const float* channels, std::size_t k, std::size_t padded, Form form, std::byte* out) {
  switch (form) {
    case Form::bf16_floats:
    case Form::bf16_pairs:
    case Form::bf16_chains:
      PrepareRowBF16(in, k, form, out);
      return 1;
    case Form::int8:
    case Form::uint8:
    case Form::int16:
      break;
  }
  return PrepareRowInt8(in, channels, k, padded, form, out);
}

inline void Prepare(const Narrow& narrow, const float* in, std::size_t ldi, std::size_t rows, std::size_t k, const float* channels,
                    std::byte* out, float* scales) {
  const std::size_t bytes = narrow.row_bytes(k);
  for (std::size_t r = 0; r < rows; ++r) {
    const float scale = PrepareRow(in + r * ldi, channels, k, narrow.padded(k), narrow.activations, out + r * bytes);
    if (narrow.integers()) {
      scales[r] = scale;
    }
  }
}

// largest[i] = max(largest[i], |w[r][i]|) over rows of a weight. An order of rows cannot show.
inline void ColumnMax(const void* source, Element element, std::size_t rows, std::size_t k, float* largest) {
  for (std::size_t r = 0; r < rows; ++r) {
    const auto* bytes = static_cast<const std::uint8_t*>(source) + r * k * size_of(element);
    for (std::size_t i = 0; i < k; i += 16) {
      const F16 x = Map([](Vec v) HWY_ATTR { return hn::Abs(v); }, LoadElementN(bytes, element, i, k - i));
      StoreN16(Max(x, LoadN16(largest + i, k - i)), largest + i, k - i);
    }
  }
}

inline void PackNarrow(const Narrow& narrow, const void* source, Element element, std::size_t rows, const NarrowColumns& to,
                       std::byte* scratch) {
  const std::size_t k = to.k;
  const std::size_t column_bytes = narrow.column_bytes(k);
  const std::size_t dwords = column_bytes / sizeof(float);
  auto* row = reinterpret_cast<float*>(scratch + 16 * column_bytes);
  for (std::size_t r0 = 0; r0 < rows; r0 += 16) {
    const std::size_t count = rows - r0 < 16 ? rows - r0 : 16;
    for (std::size_t r = 0; r < 16; ++r) {
      std::byte* prepared = scratch + r * column_bytes;
      if (r >= count) {
        __builtin_memset(prepared, 0, column_bytes);
        continue;
      }
      const auto index = static_cast<std::uint32_t>(r0 + r);
      Embed(source, element, &index, 1, k, row, k);
      const float scale = PrepareRow(row, to.channels, k, narrow.padded(k), narrow.weights, prepared);
      if (narrow.integers()) {
        std::int32_t sum = 0;
        for (std::size_t i = 0; i < narrow.padded(k); ++i) {
          sum += narrow.weights == Form::int8 ? static_cast<std::int32_t>(reinterpret_cast<const std::int8_t*>(prepared)[i])
                                              : static_cast<std::int32_t>(reinterpret_cast<const std::int16_t*>(prepared)[i]);
        }
        to.scales[to.column + r0 + r] = scale;
        to.start[to.column + r0 + r] = -128 * sum;
      }
    }
    const PanelOf panel(to.n, to.column + r0);
    auto* out = reinterpret_cast<float*>(to.packed + panel.first * column_bytes) + (to.column + r0 - panel.first);
    for (std::size_t i = 0; i < dwords; i += 4) {
      Transpose16x4(reinterpret_cast<const float*>(scratch) + i, dwords, out + i * panel.width, panel.width);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kime::kernels
HWY_AFTER_NAMESPACE();

#endif  // KIME_KERNELS_CPU_PREPARE_INL_H_
