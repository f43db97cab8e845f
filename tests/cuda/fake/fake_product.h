// The arithmetic of the fake cuBLASLt.
#pragma once

#include <cstddef>
#include <memory>

#include "tests/cuda/fake/fake_cublaslt.h"

namespace kime::test {

/// c[m][n] = a[m][k] w[n][k]^T, added to what c holds where it says so. Rows are so many elements apart.
struct FakeProduct {
  std::shared_ptr<const FakeAlgorithm> algorithm;
  cuda::BlasType type = cuda::BlasType::f16;
  cuda::BlasType out = cuda::BlasType::f16;
  bool added = false;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  std::size_t ld_a = 0;
  std::size_t ld_w = 0;
  std::size_t ld_c = 0;

  [[nodiscard]] std::size_t out_bytes() const { return out == cuda::BlasType::f32 ? 4 : 2; }
  void compute(const std::byte* a, const std::byte* w, std::byte* c) const;
};

}  // namespace kime::test
