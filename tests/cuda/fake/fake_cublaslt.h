// A cuBLASLt over the fake driver: products are computed late, on its streams, by algorithms of which each can be told how to go wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kime/backend/cuda/blas_api.h"

namespace kime::test {

/// How an output is summed. All but the last two are as good as one another, and differ in their bits.
enum class FakeSum : std::uint8_t {
  forward,   ///< One chain over k.
  backward,  ///< From its end.
  halves,    ///< Two chains, then their sum.
  blocks,    ///< Sixteen products at a time, added to the sum.
  flushed,   ///< Forward, subnormal operands being zero.
  short_,    ///< Forward without the last one: no product.
  nothing,   ///< The output is not written.
};

/// One output of a product.
struct FakeOutput {
  std::size_t rows = 0;
  std::size_t row = 0;
  std::size_t column = 0;
};

struct FakeAlgorithm {
  std::function<FakeSum(const FakeOutput&)> sum;   ///< Forward where there is none.
  std::function<bool(std::size_t rows)> takes;     ///< Whether cublasLtMatmulAlgoCheck takes it; always where there is none.
  std::function<bool(std::size_t rows)> computes;  ///< Whether cublasLtMatmul does, though it was taken; always where there is none.
  std::int32_t split_k = 1;
  std::uint32_t reduction = 0;
  std::size_t workspace_bytes = 0;
  cuda::BlasStatus state = cuda::BlasStatus::success;  ///< What the heuristic says of it.
};

struct FakeBlasConfig {
  std::size_t version = 120805;
  std::vector<FakeAlgorithm> algorithms{1};  ///< In the heuristic's order. Preferences leave out none of them.
};

/// What the heuristic was asked.
struct FakeAsked {
  std::size_t rows = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reduction_mask = 7;
  std::vector<std::uint32_t> alignments;
};

struct FakeBlasState;

/// While it lives it is the library behind the table; a FakeCuda lives longer. One at a time. Calls are counted, made to fail and punished
/// by the FakeCuda, under the library's names.
class FakeBlas {
 public:
  explicit FakeBlas(FakeBlasConfig config = {});
  FakeBlas(const FakeBlas&) = delete;
  FakeBlas& operator=(const FakeBlas&) = delete;
  ~FakeBlas();

  [[nodiscard]] static const cuda::BlasApi& api();

  /// Handles, descriptors, layouts and preferences that are there now. No call is under way.
  [[nodiscard]] std::size_t objects() const;
  [[nodiscard]] const std::vector<FakeAsked>& asked() const;

 private:
  std::unique_ptr<FakeBlasState> state_;
};

}  // namespace kime::test
