// A model on the CPU backend, ready to run batches.
#pragma once

#include <catch2/catch.hpp>
#include <memory>

#include "kime/backend/cpu/cpu_backend.h"
#include "kime/graph/builder.h"
#include "tests/support/random_model.h"

namespace kime::test {

/// The smallest bucket that holds a batch.
inline Bucket bucket_of(const Batch& batch) {
  return {batch.ids.size(), batch.seqs(), batch.markers.size()};
}

/// A backend with one model's weights. run() may be called from several threads.
class Loaded {
 public:
  Loaded(const ModelConfig& config, const RandomWeights& weights, std::size_t threads, const kernels::Table& kernels = kernels::table())
      : graph_(build_graph(config)), backend_(threads, kernels) {
    auto uploaded = backend_.upload(weights.source(), graph_);
    REQUIRE(uploaded);
    weights_ = std::make_unique<CpuBackend::Weights>(*std::move(uploaded));
  }

  /// Runs a batch on a plan of its own, for `bucket`.
  [[nodiscard]] Outputs run(const Batch& batch, const Bucket& bucket) const {
    auto workspace = backend_.workspace(*weights_);
    auto plan = workspace ? backend_.lower(*weights_, graph_, bucket, *workspace) : std::move(workspace).error();
    Outputs outputs;
    if (!plan || !backend_.run(*plan, batch, outputs)) {
      outputs.logits.clear();  // shows in the caller's comparison; Catch's macros are for one thread only
      outputs.act.clear();
    }
    return outputs;
  }
  [[nodiscard]] Outputs run(const Batch& batch) const { return run(batch, bucket_of(batch)); }

  [[nodiscard]] const CpuBackend& backend() const { return backend_; }
  [[nodiscard]] const CpuBackend::Weights& weights() const { return *weights_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
  CpuBackend backend_;
  std::unique_ptr<CpuBackend::Weights> weights_;
};

}  // namespace kime::test
