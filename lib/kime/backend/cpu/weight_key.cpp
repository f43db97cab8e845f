#include "kime/backend/cpu/weight_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "kime/backend/cpu/until_failure.h"
#include "kime/base/arithmetic.h"
#include "kime/base/memory.h"

namespace kime::cpu {

namespace {

// Bytes of a tensor that are digested at a time: a digest of digests is the same for any number of threads. A whole number of elements, and
// small enough to be still in a core's cache when it is digested.
constexpr std::size_t kHashedPiece = std::size_t{1} << 20;

struct HashedPiece {
  std::size_t tensor = 0;
  std::size_t first = 0;
  std::size_t bytes = 0;
};

std::vector<HashedPiece> pieces_of(const TensorSource& tensors) {
  std::vector<HashedPiece> pieces;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const std::size_t bytes = elements(tensors.shape(tensor)) * size_of(tensors.dtype(tensor));
    for (std::size_t first = 0; first < bytes; first += kHashedPiece) {
      pieces.push_back({tensor, first, std::min(kHashedPiece, bytes - first)});
    }
  }
  return pieces;
}

// All but the content, as text. A name's length stands before it, so that no name can pass for what follows one.
std::string description(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, const kernels::Table& table) {
  std::string text = fmt::format("format {}, arithmetic {}, target {}, {}", kCacheFormat, kArithmetic, table.target, layout.description());
  for (const kernels::Narrow* narrow : {table.bf16, table.int8}) {
    fmt::format_to(std::back_inserter(text), ", {}", narrow == nullptr ? "none" : narrow->name);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = graph.weights[i].name;
    fmt::format_to(std::back_inserter(text), "; {} {} {} [{}]", name.size(), name, to_string(tensors.dtype(i)),
                   fmt::join(tensors.shape(i), ","));
  }
  return text;
}

WeightKey canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  WeightKey key;
  std::ranges::copy(bytes.digest, key.bytes.begin());
  return key;
}

}  // namespace

std::string WeightKey::hex() const {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

Result<WeightKey> weight_key(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, const kernels::Table& table,
                             const Crew& crew, std::size_t threads) {
  const std::vector<HashedPiece> pieces = pieces_of(tensors);
  auto staging = Pages::make(kHashedPiece * threads);
  if (!staging) {
    return std::move(staging).error();
  }
  // The text's digest stands first, then those of the pieces.
  std::vector<WeightKey> digests(1 + pieces.size());
  const std::string text = description(tensors, graph, layout, table);
  digests[0] = canonical(XXH3_128bits(text.data(), text.size()));
  auto failed = until_failure<Error>(crew, threads, pieces.size(), [&](std::size_t i, std::size_t worker) -> std::optional<Error> {
    const HashedPiece& piece = pieces[i];
    std::byte* bytes = staging->data() + worker * kHashedPiece;
    if (auto read = tensors.read(piece.tensor, piece.first, {bytes, piece.bytes}); !read) {
      return std::move(read).error();
    }
    digests[1 + i] = canonical(XXH3_128bits(bytes, piece.bytes));
    return {};
  });
  if (failed) {
    return *std::move(failed);
  }
  return canonical(XXH3_128bits(digests.data(), digests.size() * sizeof(WeightKey)));
}

}  // namespace kime::cpu
