// What a backend is, as a C++20 concept: an executor is compiled for one, so that no call per op is virtual.
#pragma once

#include <concepts>

#include "kime/base/caps.h"
#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/batch/batch.h"
#include "kime/batch/bucket.h"
#include "kime/graph/graph.h"

namespace kime {

/// - `caps()`: what it can do.
/// - `upload(tensors, graph)`: converts a checkpoint's tensors, in the order of graph.weights, to the backend's own layout.
///   Errors: `unsupported` for a shape or an op that it cannot run, `input` when the source fails, `device`.
/// - `workspace(weights)`: what the plans of one executor share: the arena, grown by `lower` to the largest plan.
/// - `lower(weights, graph, bucket, workspace)`: a plan; this is where memory is allocated.
/// - `run(plan, batch, outputs)`: runs a checked batch that fits the plan's bucket. Once `outputs` has grown it allocates nothing.
///
/// Backend and Weights may be used from several threads at once; a Workspace and its plans from one at a time. Weights outlive the
/// workspaces made from them, a workspace its plans, and the backend outlives all.
template <class B>
concept Backend = requires(const B& backend, const TensorSource& tensors, const Graph& graph, const typename B::Weights& weights,
                           const Bucket& bucket, typename B::Workspace& workspace, typename B::Plan& plan, const Batch& batch,
                           Outputs& outputs) {
  { backend.caps() } -> std::same_as<Caps>;
  { backend.upload(tensors, graph) } -> std::same_as<Result<typename B::Weights>>;
  { backend.workspace(weights) } -> std::same_as<Result<typename B::Workspace>>;
  { backend.lower(weights, graph, bucket, workspace) } -> std::same_as<Result<typename B::Plan>>;
  { backend.run(plan, batch, outputs) } -> std::same_as<Status>;
};

}  // namespace kime
