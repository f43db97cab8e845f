// The builder: a model's configuration becomes a graph, once for every backend. Pure.
#pragma once

#include "kime/graph/graph.h"
#include "kime/model/config.h"

namespace kime {

/// The model of the design's section 6. `weights` are expected_tensors(config), in that order.
///
/// The last layer (of the head, or of the encoder when there is no head) is computed only where it is looked at: its keys and values
/// for all tokens, all that follows for the picks.
///
/// `precision` is that of the gemms of encoder and head; the scorer and the act head stay in float32.
[[nodiscard]] Graph build_graph(const ModelConfig& config, Precision precision = Precision::f32);

}  // namespace kime
