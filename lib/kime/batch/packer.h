// The packer: which records of a window share a batch. Pure: sizes in, a partition out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kime/batch/bucket.h"

namespace kime {

/// The size of one record.
struct RecordSize {
  std::uint32_t tokens = 0;
  std::uint32_t markers = 0;
};

/// What a batch costs, in the time of one token: `fixed` plus its tokens (`padded`: the tokens of its bucket), plus `spill` for each
/// token over `target`, where a batch no longer fits the caches.
struct CostModel {
  double fixed = 32;
  bool padded = false;
  std::size_t target = 512;
  double spill = 0.1;
};

/// A partition of a window: batch b is the records order[ends[b - 1]] .. order[ends[b] - 1]. Reused; once grown it does not allocate.
struct Packing {
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> ends;
  std::size_t tokens = 0;   ///< Real tokens in all batches.
  std::size_t padding = 0;  ///< What the buckets hold beyond them.
};

/// Packs a window for at least `ways` batches where that costs nothing overall (so that `ways` streams all have work), grouping like
/// lengths and cutting where the cost model says that another batch is cheaper. Every record must fit some bucket by itself.
/// The same window gives the same packing.
void pack(std::span<const RecordSize> window, std::span<const Bucket> buckets, const CostModel& cost, std::size_t ways, Packing& out);

}  // namespace kime
