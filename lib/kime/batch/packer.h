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

/// The cheapest way to cut one order of a window.
struct PackingCuts {
  std::vector<double> cost;         ///< [i]: of the first i records at their best.
  std::vector<std::uint32_t> from;  ///< [i]: where the last batch of those begins.
  std::vector<RecordSize> sizes;    ///< In that order.
};

/// A partition of a window: batch b is the records order[ends[b - 1]] .. order[ends[b] - 1], the first one from 0. Reused; once grown
/// it does not allocate.
struct Packing {
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> ends;
  std::size_t tokens = 0;   ///< Real tokens in all batches.
  std::size_t padding = 0;  ///< What the buckets hold beyond them.

  // Scratch of pack(), kept so that it allocates nothing.
  std::vector<std::uint32_t> by_length;
  PackingCuts as_they_come;
  PackingCuts sorted;
};

/// Packs a window: of all ways to cut it, as it comes and sorted by length, the cheapest by the cost model; of equally cheap ones that
/// with the most even batches. Without padding, like lengths gain little, and the order of arrival is kept unless another saves more than
/// a hundredth: the first records are then the first to be done. A window that would make fewer than `ways` batches is cut finer, so
/// that `ways` streams all have work, as long as a batch's fixed cost stays under an eighth of its tokens.
///
/// Every record must fit some bucket by itself; one that does not gets a batch of its own. The same window gives the same packing.
/// Takes, with padding, records times the most records that a bucket holds steps; without, times those of about two targets.
void pack(std::span<const RecordSize> window, std::span<const Bucket> buckets, const CostModel& cost, std::size_t ways, Packing& out);

}  // namespace kime
