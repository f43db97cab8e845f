// The floating-point control word while kernels run.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

namespace kime::kernels {

/// Sets this thread's control word while it lives and restores the caller's: the same bits must come out whatever the caller has set
/// (design, section 8). What is to be computed under it stands in functions that are not inlined, called meanwhile.
class FpScope {
 public:
  /// Rounds to nearest, keeps subnormals and masks all exceptions.
  FpScope() : FpScope(kDefault) {}
  /// The same, but subnormal operands and results count as 0, as the bf16 instructions have it.
  static FpScope flushing() { return FpScope(kDefault | kFlush); }
  FpScope(const FpScope&) = delete;
  FpScope& operator=(const FpScope&) = delete;
  ~FpScope() { write(saved_); }

 private:
#if defined(__x86_64__) || defined(__i386__)
  using Word = std::uint32_t;
  static constexpr Word kDefault = 0x1F80;
  static constexpr Word kFlush = 0x8040;  // FTZ and DAZ
  static Word read() {
    return _mm_getcsr();
  }
  static void write(Word word) {
    _mm_setcsr(word);
  }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kDefault = 0;
  static constexpr Word kFlush = Word{1} << 24;  // FZ
  static Word read() {
    Word word = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) {
    __asm__ volatile("msr fpcr, %0" : : "r"(word));
  }
#else
#error "say here how this architecture's floating-point control word is set"
#endif

  explicit FpScope(Word word) : saved_(read()) {
    write(word);
  }

  Word saved_;
};

}  // namespace kime::kernels
