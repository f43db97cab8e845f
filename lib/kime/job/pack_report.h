// How the records of an input pack, without scoring them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kime/base/error.h"
#include "kime/batch/bucket.h"
#include "kime/job/intake.h"

namespace kime {

struct PackReport {
  struct Use {
    std::uint64_t batches = 0;
    std::uint64_t records = 0;
    std::uint64_t tokens = 0;
  };
  std::uint64_t records = 0;  ///< Sound ones.
  std::uint64_t failed = 0;
  std::uint64_t tokens = 0;
  std::uint64_t batches = 0;
  std::uint64_t bucket_tokens = 0;                 ///< What the buckets of all batches hold together.
  std::vector<Use> buckets;                        ///< One for each bucket of the stage.
  std::map<std::uint32_t, std::uint64_t> lengths;  ///< How many records are so long.

  [[nodiscard]] std::uint32_t shortest() const { return lengths.empty() ? 0 : lengths.begin()->first; }
  [[nodiscard]] std::uint32_t longest() const { return lengths.empty() ? 0 : lengths.rbegin()->first; }
  /// The length that half of the records do not pass.
  [[nodiscard]] std::uint32_t median() const;
};

/// Reads all records and packs them as a run of `streams` streams would. Errors: `input` when an input fails in the middle.
Result<PackReport> report_packing(Intake& intake, std::span<const Bucket> buckets, std::size_t streams);

}  // namespace kime
