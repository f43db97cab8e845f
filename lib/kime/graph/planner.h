// The arena planner: an offset for each value of a graph, by its live range. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kime/graph/graph.h"

namespace kime {

/// Where values live in one piece of memory, in bytes.
struct ArenaPlan {
  std::vector<std::size_t> offsets;  ///< One per value.
  std::size_t bytes = 0;             ///< The size of the piece.
};

/// A value's life: the ops [first, last] that touch it, both ends included.
struct LiveRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// The live range of each value. The graph's outputs live to its end.
[[nodiscard]] std::vector<LiveRange> live_ranges(const Graph& graph);

/// How many tokens, sequences and markers a plan is made for.
struct Extent {
  std::size_t tokens = 0;
  std::size_t seqs = 0;
  std::size_t markers = 0;
};

/// How many rows a value of these rows has.
[[nodiscard]] std::size_t row_count(Rows rows, const Extent& extent);

/// Something to be placed.
struct ArenaBlock {
  LiveRange life;
  std::size_t bytes = 0;
};

/// Two blocks alive at the same op never overlap; every offset is a multiple of `alignment` (bytes, a power of two).
///
/// First fit, largest block first ("greedy by size", Pisarchyk and Lee 2020, arXiv:2001.03288). A block of s bytes whose
/// neighbours in time have n bytes together ends at 2 n + s at most: each gap below it is smaller than itself, hence smaller than the
/// neighbour above the gap. So the arena never passes the largest 2 n + s, nor the sum of all blocks.
[[nodiscard]] ArenaPlan plan_blocks(std::span<const ArenaBlock> blocks, std::size_t alignment = 64);

/// The same for a graph's values as float32, `offsets` by value.
[[nodiscard]] ArenaPlan plan_arena(const Graph& graph, const Extent& extent, std::size_t alignment = 64);

}  // namespace kime
