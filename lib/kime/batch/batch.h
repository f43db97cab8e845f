// A batch: ragged sequences end to end, no padding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kime/base/error.h"

namespace kime {

/// A view over flat arrays. Sequence s is tokens [cu[s], cu[s + 1]) of `ids` and markers [mcu[s], mcu[s + 1]) of `markers`; a marker
/// is a position within its own sequence. cu and mcu have seqs() + 1 entries, qtype has seqs().
struct Batch {
  std::span<const std::uint32_t> ids;
  std::span<const std::uint32_t> cu;
  std::span<const std::uint32_t> markers;
  std::span<const std::uint32_t> mcu;
  std::span<const std::uint8_t> qtype;

  [[nodiscard]] std::size_t seqs() const { return cu.empty() ? 0 : cu.size() - 1; }

  /// Checks that the pieces agree, so that a backend may index without checks: ids below `vocab`, question types below `types`.
  /// Errors: `batch`, naming the first problem in the order that the engine's contract fixes.
  [[nodiscard]] Status check(std::size_t vocab, std::size_t types) const;
};

/// Owns what a Batch views; reused from one batch to the next, so that once it has grown, building a batch allocates nothing.
class BatchBuffer {
 public:
  /// Empties it and keeps the memory.
  void clear();
  /// Appends a sequence. Errors: `batch` when the batch would pass 2^32 - 1 tokens or markers; it is then as it was.
  Status push(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> markers, std::uint8_t qtype);
  /// Room for this many, so that pushing them allocates nothing.
  void reserve(std::size_t tokens, std::size_t seqs, std::size_t markers);
  /// The view; valid until the next push, clear or reserve. An empty buffer is a batch of no sequences, cu = mcu = [0].
  [[nodiscard]] Batch batch() const;

 private:
  std::vector<std::uint32_t> ids_;
  std::vector<std::uint32_t> cu_{0};
  std::vector<std::uint32_t> markers_;
  std::vector<std::uint32_t> mcu_{0};
  std::vector<std::uint8_t> qtype_;
};

/// What a batch produces. Reused; once it has grown it does not allocate.
struct Outputs {
  std::vector<float> logits;              ///< One per marker, in batch order.
  std::vector<std::array<float, 2>> act;  ///< One pair per sequence.
  bool operator==(const Outputs&) const = default;
};

}  // namespace kime
