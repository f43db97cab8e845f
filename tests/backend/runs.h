// A model on the CPU backend, ready to run batches.
#pragma once

#include <catch2/catch.hpp>
#include <memory>

#include "kime/backend/cpu/cpu_backend.h"
#include "kime/base/memory.h"
#include "kime/graph/builder.h"
#include "tests/support/random_model.h"

namespace kime::test {

/// The smallest bucket that holds a batch.
inline Bucket bucket_of(const Batch& batch) {
  return {batch.ids.size(), batch.seqs(), batch.markers.size()};
}

/// A plan with memory of its own.
struct RunnablePlan {
  cpu::Plan plan;
  Pages memory;
};

/// A backend with one model's weights. run() may be called from several threads, each plan by one.
class Loaded {
 public:
  /// Errors: the backend's.
  static Result<std::unique_ptr<Loaded>> load(const TensorSource& tensors, Graph graph, std::size_t threads,
                                              const kernels::Table& kernels = kernels::table()) {
    auto layout = CpuBackend::layout(tensors, graph, kernels);
    if (!layout) {
      return std::move(layout).error();
    }
    auto memory = Pages::make(layout->bytes());
    if (!memory) {
      return std::move(memory).error();
    }
    auto loaded = std::unique_ptr<Loaded>(new Loaded(std::move(graph), *std::move(layout), *std::move(memory), threads, kernels));
    if (auto read = loaded->backend_.load(tensors, loaded->graph_, loaded->layout_, loaded->memory_.data()); !read) {
      return std::move(read).error();
    }
    return loaded;
  }
  static std::unique_ptr<Loaded> load(const ModelConfig& config, const RandomWeights& weights, std::size_t threads,
                                      const kernels::Table& kernels = kernels::table(), Precision precision = Precision::f32) {
    auto loaded = load(weights.source(), build_graph(config, precision), threads, kernels);
    REQUIRE(loaded);
    return *std::move(loaded);
  }

  [[nodiscard]] Result<RunnablePlan> plan(const Bucket& bucket) const {
    auto code = cpu::Code::compile(graph_, bucket);
    if (!code) {
      return std::move(code).error();
    }
    auto plan = backend_.link(cpu::Weights(layout_, memory_.data()), graph_, *code);
    if (!plan) {
      return std::move(plan).error();
    }
    auto memory = Pages::make(backend_.bytes(*code));
    if (!memory) {
      return std::move(memory).error();
    }
    return RunnablePlan{*std::move(plan), *std::move(memory)};
  }

  Status run(const RunnablePlan& plan, const Batch& batch, Outputs& outputs) const {
    outputs.logits.resize(batch.markers.size());
    outputs.act.resize(batch.seqs());
    return backend_.run(plan.plan, batch, plan.memory.data(), outputs.logits.data(), outputs.act.empty() ? nullptr : outputs.act[0].data());
  }
  /// Runs a batch on a plan of its own, for `bucket`.
  [[nodiscard]] Outputs run(const Batch& batch, const Bucket& bucket) const {
    auto planned = plan(bucket);
    Outputs outputs;
    if (!planned || !run(*planned, batch, outputs)) {
      outputs.logits.clear();  // shows in the caller's comparison; Catch's macros are for one thread only
      outputs.act.clear();
    }
    return outputs;
  }
  [[nodiscard]] Outputs run(const Batch& batch) const { return run(batch, bucket_of(batch)); }

 private:
  Loaded(Graph graph, cpu::WeightLayout layout, Pages memory, std::size_t threads, const kernels::Table& kernels)
      : graph_(std::move(graph)), layout_(std::move(layout)), memory_(std::move(memory)), backend_(threads, kernels) {}

  Graph graph_;
  cpu::WeightLayout layout_;
  Pages memory_;
  CpuBackend backend_;
};

}  // namespace kime::test
