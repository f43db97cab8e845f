// From ops to launches of kernels. Pure: places instead of addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
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

/// A matrix product that a library may do in a kernel's place: c[rows][n] = a[rows][k] w[n][k]^T over all rows of a bucket, of `type` with
/// float32 sums; c is of `type` too, or float32 to which it is added. Leading dimensions are in elements; w's is k.
struct ProductLaunch {
  DType type = DType::f16;
  bool added = false;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
  std::uint32_t ld_a = 0;
  std::uint32_t ld_c = 0;
  std::size_t rows = 0;
  Ref a;
  Ref w;
  Ref c;
};

using LoweredStep = std::variant<KernelLaunch, ProductLaunch>;

/// A whole run of a batch, in order, but for the counts, which must be in the arena before.
struct LoweredGraph {
  std::vector<RopeSpec> ropes;
  std::vector<LoweredStep> steps;
};

/// Whether a library does a product.
using LibraryTakes = std::function<bool(const ProductLaunch&)>;

/// For a device of so many multiprocessors; these change how work is divided, never a bit of a score. `layout` and `code` are of this
/// graph. The library is asked for products of narrow elements over tokens but those of a GEGLU, whose kernel saves more than it costs;
/// over picks a bucket has many more rows than there are in the end, all of which a library would compute.
[[nodiscard]] LoweredGraph lower(const Graph& graph, const WeightLayout& layout, const BucketCode& code, unsigned processors,
                                 const LibraryTakes& library = {});

/// The launch that writes the counts to the arena.
[[nodiscard]] KernelLaunch set_counts(const BucketCode& code, const Extent& counts);

}  // namespace kime::cuda
