// From ops to launches of kernels. Pure: places instead of addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kime/backend/cuda/bucket_code.h"
#include "kime/backend/cuda/weights.h"

namespace kime::cuda {

/// What a kernel's pointer points into. `cosine` and `sine`: the tables of RopeSpec number `offset`.
enum class Region : std::uint8_t { weights, arena, inputs, outputs, cosine, sine };

/// So many bytes into it.
struct Ref {
  Region region = Region::arena;
  std::size_t offset = 0;
};

/// A rotary embedding's tables: [position][head_width / 2], for all positions of a bucket.
struct RopeSpec {
  float theta = 0;
  std::uint32_t head_width = 0;
  bool operator==(const RopeSpec&) const = default;
};

/// A launch whose pointers are still to be filled in.
struct KernelLaunch {
  struct Pointer {
    std::size_t at = 0;  ///< Where in `params`.
    Ref to;
  };
  std::string kernel;
  std::array<unsigned, 2> grid{1, 1};
  unsigned threads = 0;
  std::size_t shared_bytes = 0;
  std::vector<std::byte> params;  ///< The kernel's parameter struct (kernels/cuda).
  std::vector<Pointer> pointers;  ///< Those that are not null.
};

/// A whole run of a batch, in order, but for the counts, which must be in the arena before.
struct LoweredGraph {
  std::vector<RopeSpec> ropes;
  std::vector<KernelLaunch> launches;
};

/// For a device of so many multiprocessors; these change how work is divided, never a bit of a score. `layout` and `code` are of this
/// graph.
[[nodiscard]] LoweredGraph lower(const Graph& graph, const WeightLayout& layout, const BucketCode& code, unsigned processors);

/// The launch that writes the counts to the arena.
[[nodiscard]] KernelLaunch set_counts(const BucketCode& code, const Extent& counts);

}  // namespace kime::cuda
