// What makes a scoring job the one that it is, for its journal: everything that a byte of its output depends on.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kime/io/journal.h"
#include "kime/job/fleet.h"
#include "kime/job/intake.h"
#include "kime/job/score_job.h"
#include "kime/job/stage.h"
#include "kime/model/checkpoint.h"

namespace kime {

/// The inputs: size, time of change and a digest of both ends of each, and where there are several, which lines name, their names. What is
/// no regular file is told by its name only, or with `twice`, which wants to read it again another time, refused.
/// Errors: `input`, naming the file.
Result<JobFields> input_fields(std::span<const LineReader> inputs, bool twice);

/// A digest of all that a checkpoint's scores depend on: its two configs' text, and the tensors' names, types, shapes and values. Reads the
/// weights, at about the speed of memory where they have been read before. Errors: `input`: a file fails.
Result<std::string> checkpoint_digest(const Checkpoint& checkpoint);

/// What a fleet computes in ("f32", or of several kinds "f32, f16").
[[nodiscard]] std::string precisions(const Fleet& fleet);
/// The same, and the classes of its devices, on which bits depend.
[[nodiscard]] JobFields fleet_fields(const Fleet& fleet);
/// Whether a job ran on devices of several classes, so that its bits are those of none.
[[nodiscard]] bool of_several_classes(const JobFields& job);

/// The options that a line depends on. `models`: how many checkpoints there are.
[[nodiscard]] JobFields option_fields(const ScoreOptions& options, const IntakeOptions& intake, std::size_t models,
                                      const std::optional<Shard>& shard);

}  // namespace kime
