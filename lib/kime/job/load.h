// From a checkpoint and a bucket table to what a run needs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kime/backend/cpu/cpu_backend.h"
#include "kime/base/error.h"
#include "kime/batch/bucket.h"
#include "kime/engine/executor.h"
#include "kime/model/config.h"

namespace kime {

/// A stage of a bucket table.
struct StageBuckets {
  std::string stage;
  std::vector<Bucket> buckets;
};

/// The stage that the options name: `file` empty is the compiled-in table, `stage` empty is `compat`, or the first stage of a file that
/// has no `compat`. Errors: `input` for a file that cannot be read, a bad table, or an unknown stage, naming those there are.
Result<StageBuckets> choose_stage(const std::string& file, const std::string& stage);

/// Builds the graph of `config` and uploads its weights from `tensors` to a CPU backend of `threads` threads.
/// Errors: those of CpuBackend::upload.
Result<Program<CpuBackend>> load_cpu(const ModelConfig& config, const TensorSource& tensors, std::size_t threads);

/// An executor for each of `count` streams. Errors: `device` when one cannot be made.
Result<std::vector<Executor<CpuBackend>>> make_executors(const Program<CpuBackend>& program, const StageBuckets& stage, std::size_t count);

}  // namespace kime
