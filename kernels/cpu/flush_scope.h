// Subnormal operands and results as 0, as the bf16 instructions have it whatever the control word says.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kime::kernels {

/// While it lives, on this thread. What is to be computed so stands in functions that are not inlined, called meanwhile.
class FlushScope {
 public:
  FlushScope() : saved_(read()) { write(saved_ | kFlush); }
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;
  ~FlushScope() { write(saved_); }

 private:
#if defined(__x86_64__)
  using Word = std::uint32_t;
  static constexpr Word kFlush = 0x8040;  // FTZ and DAZ
  static Word read() {
    return _mm_getcsr();
  }
  static void write(Word word) {
    _mm_setcsr(word);
  }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
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
#error "say here how this architecture flushes subnormals"
#endif

  Word saved_;
};

}  // namespace kime::kernels
