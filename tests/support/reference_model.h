// The whole model in float64, written straight from the formulas: what a backend's results are held against.
#pragma once

#include <array>
#include <vector>

#include "kime/batch/batch.h"
#include "kime/model/config.h"
#include "tests/support/random_model.h"

namespace kime::test {

struct ReferenceOutputs {
  std::vector<double> logits;
  std::vector<std::array<double, 2>> act;
};

/// Every layer over every token of every sequence; slow.
[[nodiscard]] ReferenceOutputs reference_model(const ModelConfig& config, const RandomWeights& weights, const Batch& batch);

/// The largest difference, as a part of the largest value that there is (at least 1); infinity where a score is NaN or there are more or
/// fewer.
[[nodiscard]] double distance(const Outputs& got, const ReferenceOutputs& want);

}  // namespace kime::test
