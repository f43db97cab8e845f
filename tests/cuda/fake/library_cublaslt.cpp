// A cuBLASLt that knows its version and nothing else.
#include <cstddef>

extern "C" std::size_t cublasLtGetVersion() {
  return 120805;
}
