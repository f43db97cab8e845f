// The floating-point control word while kernels run.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

namespace kime::cpu {

/// Rounds to nearest, keeps denormals and masks all exceptions on this thread while it lives, whatever the caller has set: the same
/// bits must come out (design, section 8). Restores the caller's word.
class FpScope {
 public:
  FpScope() : saved_(read()) { write(kDefault); }
  FpScope(const FpScope&) = delete;
  FpScope& operator=(const FpScope&) = delete;
  ~FpScope() { write(saved_); }

 private:
#if defined(__x86_64__) || defined(__i386__)
  using Word = std::uint32_t;
  static constexpr Word kDefault = 0x1F80;
  static Word read() {
    return _mm_getcsr();
  }
  static void write(Word word) {
    _mm_setcsr(word);
  }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kDefault = 0;
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

  Word saved_;
};

}  // namespace kime::cpu
