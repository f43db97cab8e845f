// The buckets that a run uses.
#pragma once

#include <string>
#include <vector>

#include "kime/base/error.h"
#include "kime/batch/bucket.h"

namespace kime {

/// A stage of a bucket table.
struct StageBuckets {
  std::string stage;
  std::vector<Bucket> buckets;
};

/// The stage that the options name: `file` empty is the compiled-in table, `stage` empty is `compat`, or the first stage of a file that
/// has no `compat`. Errors: `input` for a file that cannot be read, a bad table, or an unknown stage, naming those there are.
Result<StageBuckets> choose_stage(const std::string& file, const std::string& stage);

}  // namespace kime
