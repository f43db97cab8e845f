// What benchmarks score, and one stretch of scoring it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kime/batch/batch.h"
#include "kime/batch/packer.h"
#include "kime/graph/costs.h"
#include "kime/graph/graph.h"
#include "kime/io/record.h"
#include "kime/job/lane.h"
#include "kime/job/stage.h"

namespace kime {

/// Records like support tickets: lengths log-normal around 110 tokens, 32 to 512, 2 to 8 markers. The same ones every time.
[[nodiscard]] std::vector<Record> ticket_records(std::size_t count, std::size_t vocab);
/// Records of so many tokens each, with 4 markers. The same ones every time.
[[nodiscard]] std::vector<Record> even_records(std::size_t count, std::size_t tokens, std::size_t vocab);

struct PackedBatch {
  BatchBuffer buffer;
  std::vector<OpCost> costs;  ///< By op.
};

/// A batch of these records, which are sound.
[[nodiscard]] PackedBatch one_batch(std::span<const Record> records, const Graph& graph);
/// The records in batches of about `target` tokens, as a run over so many streams packs them.
[[nodiscard]] std::vector<PackedBatch> pack_work(const std::vector<Record>& records, const Graph& graph, const StageBuckets& stage,
                                                 std::size_t streams, std::size_t target = CostModel{}.target);

/// What lanes did together.
struct WorkDone {
  double lane_seconds = 0;  ///< The time of all lanes, added up.
  std::size_t tokens = 0;
  std::size_t records = 0;
  std::vector<double> op_flops;  ///< Useful ones, by op.

  [[nodiscard]] double flops() const;
  void add(const WorkDone& other);
};

/// What a stretch of scoring did. A lane that is through with its part goes on until all are, so that none measures an idle neighbour; that
/// is in `all` but does not count.
struct Stretch {
  std::size_t lanes = 0;
  WorkDone counted;
  WorkDone all;

  /// Of a lane, in the mean.
  [[nodiscard]] double seconds() const { return counted.lane_seconds / static_cast<double>(lanes); }
  [[nodiscard]] double tokens_per_second() const { return static_cast<double>(counted.tokens) / seconds(); }
  [[nodiscard]] double flops_per_second() const { return counted.flops() / seconds(); }
  /// Another stretch of the same lanes.
  void add(const Stretch& other);
};

/// A loop over batches, which any number of lanes score, each on a thread of its own, for a given time.
class Load {
 public:
  explicit Load(std::vector<PackedBatch> work) : work_(std::move(work)) {}

  /// Goes on where it last stopped. Each lane scores at least one batch that counts, and begins no other that would end past the time,
  /// judging by the one before. Errors: the last one of a lane.
  Result<Stretch> run(std::span<const std::shared_ptr<Lane>> lanes, double seconds);

 private:
  std::vector<PackedBatch> work_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace kime
