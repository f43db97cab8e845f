// What all kernels' parameters share: plain C++, for the kernels and for those who launch them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kime::cuda {

/// How much of a bucket is real at this launch. It lies in device memory, so that one captured graph serves every batch of the bucket;
/// rows past the real end are neither read nor written.
struct Counts {
  std::uint32_t tokens = 0;
  std::uint32_t seqs = 0;
  std::uint32_t markers = 0;
};

/// kime_set_counts: one thread. The counts come with the launch, since nothing else that a host may change at once would be read in time.
struct SetCountsParams {
  Counts* to;
  Counts counts;
};

/// What a matrix has a row of; `picks` are the first token of each sequence and then each marker's, seqs + markers rows.
enum class RowSet : std::uint32_t { tokens, seqs, markers, picks };

/// Stands for the first token of a sequence without tokens.
inline constexpr std::uint32_t kNoToken = 0xFFFFFFFFU;

/// How a kernel is launched.
struct Shape {
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned threads = 32;
  std::size_t shared_bytes = 0;  ///< Dynamic shared memory.
};

[[nodiscard]] constexpr unsigned blocks_for(std::size_t items, std::size_t each) {
  const std::size_t blocks = (items + each - 1) / each;
  return blocks == 0 ? 1U : static_cast<unsigned>(blocks);
}

}  // namespace kime::cuda
