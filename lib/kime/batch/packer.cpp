#include "kime/batch/packer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kime {
namespace {

/// A batch should have this many times its fixed cost in tokens before a window is cut finer than it must be.
constexpr double kWorthSplitting = 8;
/// What a full batch pays for being uneven, as a share of the fixed cost: decides between equally cheap packings, never between others.
constexpr double kUnevenness = 1e-6;
/// Without padding, records leave their order only where that saves more than this share of a window's cost.
constexpr double kWorthSorting = 0.01;

/// The tokens that a part needs for a batch to be cheaper in two parts, where each has as many and the batch as many over `target`; none,
/// if a batch cannot grow too large for that. Two parts cost `fixed` more, and `spill` less for each token that either has and that the
/// whole has over the target, as long as padding does not come into it.
double worth_parting(const CostModel& cost) {
  const double tokens = cost.spill > 0 ? cost.fixed / cost.spill : std::numeric_limits<double>::infinity();
  return !cost.padded && tokens < static_cast<double>(cost.target) ? tokens : std::numeric_limits<double>::infinity();
}

/// What any packing of `tokens` costs at least.
double least_cost(double tokens, const CostModel& cost) {
  const auto target = static_cast<double>(cost.target);
  const auto of = [&](double batches) { return tokens + batches * cost.fixed + cost.spill * std::max(0.0, tokens - batches * target); };
  const double full = std::floor(tokens / target);
  return std::min({of(1), of(std::max(full, 1.0)), of(full + 1)});
}

/// The cheapest cuts of `window` taken in `order`. A batch that grows can only move on to a later bucket, so one scan over the table
/// serves all the batches that end at one record; it ends at the first batch that is cheaper in two parts, as all longer ones are.
void cut(std::span<const RecordSize> window, std::span<const std::uint32_t> order, std::span<const Bucket> buckets, const CostModel& cost,
         PackingCuts& out) {
  const std::size_t count = order.size();
  out.cost.assign(count + 1, std::numeric_limits<double>::infinity());
  out.from.assign(count + 1, 0);
  out.cost[0] = 0;
  const auto target = static_cast<double>(cost.target);
  const double uneven = kUnevenness * cost.fixed / (target * target);
  const double part = worth_parting(cost);
  out.sizes.resize(count);
  std::ranges::transform(order, out.sizes.begin(), [window](std::uint32_t i) { return window[i]; });
  // What the inner loop reads and keeps lies in locals and in one row: it takes most of a reader's time where scores cost little.
  const RecordSize* const sizes = out.sizes.data();
  const double* const costs = out.cost.data();
  for (std::size_t end = 1; end <= count; ++end) {
    std::size_t tokens = 0;
    std::size_t markers = 0;
    double least = std::numeric_limits<double>::infinity();
    std::size_t from = 0;
    double most = std::numeric_limits<double>::infinity();  // tokens
    auto bucket = buckets.begin();
    for (std::size_t begin = end; begin-- > 0;) {
      tokens += sizes[begin].tokens;
      markers += sizes[begin].markers;
      while (bucket != buckets.end() && !bucket->holds(tokens, end - begin, markers)) {
        ++bucket;
      }
      const bool fits = bucket != buckets.end();
      if (!fits && end - begin > 1) {
        break;
      }
      const auto real = static_cast<double>(tokens);
      if (real > most) {
        break;
      }
      if (real > part) {  // those so far would be the second part
        most = std::min(most, std::max(real, target) + part);
      }
      const double paid = cost.padded && fits ? static_cast<double>(bucket->tokens) : real;
      const double total = costs[begin] + cost.fixed + paid + cost.spill * std::max(0.0, paid - target) + uneven * real * real;
      if (total < least) {
        least = total;
        from = begin;
      }
    }
    out.cost[end] = least;
    out.from[end] = static_cast<std::uint32_t>(from);
  }
}

/// The model under which a window of `tokens` is cut for `ways` streams: a smaller target where there is little, which then weighs
/// more than a batch, so that two are not merged again.
CostModel for_ways(CostModel cost, std::size_t tokens, std::size_t ways) {
  const double fixed = std::max(cost.fixed, 1.0);
  const auto total = static_cast<double>(tokens);
  const double batches =
      std::clamp(std::floor(total / (kWorthSplitting * fixed)), 1.0, static_cast<double>(std::max<std::size_t>(ways, 1)));
  const double share = std::ceil(total / batches);
  if (batches > 1 && share < static_cast<double>(cost.target)) {
    cost.target = static_cast<std::size_t>(share);
    cost.spill = std::max(cost.spill, 2 * fixed / share);
  }
  cost.target = std::max<std::size_t>(cost.target, 1);
  return cost;
}

}  // namespace

void pack(std::span<const RecordSize> window, std::span<const Bucket> buckets, const CostModel& cost, std::size_t ways, Packing& out) {
  const std::size_t count = window.size();
  out.tokens = 0;
  for (const RecordSize& record : window) {
    out.tokens += record.tokens;
  }
  const CostModel model = for_ways(cost, out.tokens, ways);

  out.order.resize(count);
  std::iota(out.order.begin(), out.order.end(), 0U);
  cut(window, out.order, buckets, model, out.as_they_come);
  const double as_they_come = out.as_they_come.cost[count];
  const double worth = cost.padded ? 0 : kWorthSorting * as_they_come;
  bool sort = false;
  if (cost.padded || as_they_come - least_cost(static_cast<double>(out.tokens), model) > worth) {
    out.by_length = out.order;
    std::sort(out.by_length.begin(), out.by_length.end(), [&](std::uint32_t a, std::uint32_t b) {
      return window[a].tokens != window[b].tokens ? window[a].tokens < window[b].tokens : a < b;
    });
    cut(window, out.by_length, buckets, model, out.sorted);
    sort = as_they_come - out.sorted.cost[count] >= worth;
  }
  if (sort) {
    std::swap(out.order, out.by_length);
  }
  const PackingCuts& cuts = sort ? out.sorted : out.as_they_come;

  out.ends.clear();
  out.padding = 0;
  for (std::size_t end = count; end > 0; end = cuts.from[end]) {
    out.ends.push_back(static_cast<std::uint32_t>(end));
    std::size_t tokens = 0;
    std::size_t markers = 0;
    for (std::size_t i = cuts.from[end]; i < end; ++i) {
      tokens += window[out.order[i]].tokens;
      markers += window[out.order[i]].markers;
    }
    if (const Bucket* bucket = find_bucket(buckets, tokens, end - cuts.from[end], markers)) {
      out.padding += bucket->tokens - tokens;
    }
  }
  std::reverse(out.ends.begin(), out.ends.end());
}

}  // namespace kime
