#include "kime/graph/planner.h"

#include <algorithm>
#include <numeric>

namespace kime {

namespace {

bool meet(const LiveRange& a, const LiveRange& b) {
  return a.first <= b.last && b.first <= a.last;
}

std::size_t round_up(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// The lowest offset at which `size` bytes fit between the `taken` intervals [begin, end), which are sorted by their begin and may overlap.
std::size_t first_fit(const std::vector<std::pair<std::size_t, std::size_t>>& taken, std::size_t size) {
  std::size_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (begin >= offset && begin - offset >= size) {
      break;
    }
    offset = std::max(offset, end);
  }
  return offset;
}

}  // namespace

std::vector<LiveRange> live_ranges(const Graph& graph) {
  std::vector<LiveRange> ranges(graph.values.size());
  std::vector<bool> seen(graph.values.size(), false);
  const auto touch = [&](ValueId value, std::size_t at) {
    if (!seen[value]) {
      seen[value] = true;
      ranges[value].first = at;
    }
    ranges[value].last = at;
  };
  for (std::size_t at = 0; at < graph.ops.size(); ++at) {
    const Uses used = uses(graph.ops[at]);
    for (const ValueId value : used.reads) {
      touch(value, at);
    }
    touch(used.writes, at);
  }
  if (!graph.ops.empty()) {
    touch(graph.logits, graph.ops.size() - 1);
    touch(graph.act, graph.ops.size() - 1);
  }
  return ranges;
}

std::size_t row_count(Rows rows, const Extent& extent) {
  switch (rows) {
    case Rows::tokens:
      return extent.tokens;
    case Rows::seqs:
      return extent.seqs;
    case Rows::markers:
      return extent.markers;
    case Rows::picks:
      break;
  }
  return extent.seqs + extent.markers;
}

ArenaPlan plan_blocks(std::span<const ArenaBlock> blocks, std::size_t alignment) {
  std::vector<std::size_t> sizes;
  for (const ArenaBlock& block : blocks) {
    sizes.push_back(round_up(block.bytes, alignment));
  }
  // Largest first: every gap that a block leaves below itself is then smaller than each block around it, which is what bounds the arena.
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });

  ArenaPlan plan;
  plan.offsets.resize(blocks.size());
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t block = order[i];
    taken.clear();
    for (std::size_t j = 0; j < i; ++j) {
      const std::size_t other = order[j];
      if (meet(blocks[block].life, blocks[other].life)) {
        taken.emplace_back(plan.offsets[other], plan.offsets[other] + sizes[other]);
      }
    }
    std::sort(taken.begin(), taken.end());
    plan.offsets[block] = first_fit(taken, sizes[block]);
    plan.bytes = std::max(plan.bytes, plan.offsets[block] + sizes[block]);
  }
  return plan;
}

ArenaPlan plan_arena(const Graph& graph, const Extent& extent, std::size_t alignment) {
  const std::vector<LiveRange> lives = live_ranges(graph);
  std::vector<ArenaBlock> blocks;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    blocks.push_back({lives[i], row_count(value.rows, extent) * value.width * sizeof(float)});
  }
  return plan_blocks(blocks, alignment);
}

}  // namespace kime
