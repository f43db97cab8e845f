// The executor: a graph, its weights on one backend, and a plan per bucket, built on first use and replayed after that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kime/engine/backend.h"

namespace kime {

/// What every executor of a run shares: the graph, where it reads its weights, and what its batches are checked against.
template <Backend B>
struct Program {
  std::shared_ptr<const B> backend;
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const typename B::Weights> weights;
  std::size_t vocab = 0;  ///< Token ids are below it.
  std::size_t types = 0;  ///< Question types are below it.
};

/// Used by one thread at a time; several executors may share a Program.
template <Backend B>
class Executor {
 public:
  /// An executor over the buckets of one stage, searched in order. Errors: `device` when the workspace cannot be made.
  static Result<Executor> make(Program<B> program, std::string stage, std::span<const Bucket> buckets) {
    auto workspace = program.backend->workspace(*program.weights);
    if (!workspace) {
      return std::move(workspace).error();
    }
    return Executor(std::move(program), std::move(stage), buckets, *std::move(workspace));
  }

  /// Builds the plan for `bucket` now rather than on first use, once.
  /// Errors: `unsupported` when the stage has no such bucket, and what lowering reports.
  Status prepare(const Bucket& bucket) {
    auto plan = plan_for(bucket);
    if (!plan) {
      return std::move(plan).error();
    }
    return {};
  }

  /// The same for several, which a backend may do at once.
  Status prepare(std::span<const Bucket> buckets) {
    if constexpr (requires { program_.backend->prepare(*program_.weights, *workspace_, buckets); }) {
      if (auto prepared = program_.backend->prepare(*program_.weights, *workspace_, buckets); !prepared) {
        return prepared;
      }
    }
    for (const Bucket& bucket : buckets) {
      if (auto prepared = prepare(bucket); !prepared) {
        return prepared;
      }
    }
    return {};
  }

  /// Checks a batch and gives the plan of the first bucket that holds it. Errors: `batch`, `no_bucket`, and what lowering reports.
  Result<typename B::Plan*> plan(const Batch& batch, Bucket& taken) {
    if (auto checked = batch.check(program_.vocab, program_.types); !checked) {
      return std::move(checked).error();
    }
    const Bucket* bucket = find_bucket(buckets_, batch.ids.size(), batch.seqs(), batch.markers.size());
    if (bucket == nullptr) {
      return no_bucket(stage_, batch.ids.size(), batch.seqs(), batch.markers.size());
    }
    taken = *bucket;
    return plan_for(*bucket);
  }

  /// Runs a batch in the first bucket that holds it and returns that bucket. Once its plan exists and `outputs` has grown, this
  /// allocates nothing on any thread. With a device's stream for a backend it enqueues there and waits for its own event.
  /// Errors: those of plan(), and what the backend reports; `outputs` then means nothing.
  Result<Bucket> run(const Batch& batch, Outputs& outputs) {
    Bucket bucket;
    auto plan = this->plan(batch, bucket);
    if (!plan) {
      return std::move(plan).error();
    }
    if (auto ran = program_.backend->run(**plan, batch, outputs); !ran) {
      return std::move(ran).error();
    }
    return bucket;
  }

  [[nodiscard]] const B& backend() const { return *program_.backend; }
  [[nodiscard]] typename B::Workspace& workspace() { return *workspace_; }

  /// The buckets that have a plan, in the order in which they were built; for profiling.
  [[nodiscard]] std::vector<Bucket> warm() const {
    std::vector<Bucket> buckets;
    for (const auto& entry : plans_) {
      buckets.push_back(entry.bucket);
    }
    return buckets;
  }

  struct Entry {
    Bucket bucket;
    std::unique_ptr<typename B::Plan> plan;
  };
  /// The plans built so far, in the order of warm(); for profiling.
  [[nodiscard]] std::span<Entry> plans() { return plans_; }

 private:
  Executor(Program<B> program, std::string stage, std::span<const Bucket> buckets, typename B::Workspace workspace)
      : program_(std::move(program)),
        stage_(std::move(stage)),
        buckets_(buckets.begin(), buckets.end()),
        workspace_(std::make_unique<typename B::Workspace>(std::move(workspace))) {}

  Result<typename B::Plan*> plan_for(const Bucket& bucket) {
    for (auto& entry : plans_) {
      if (entry.bucket == bucket) {
        return entry.plan.get();
      }
    }
    if (std::find(buckets_.begin(), buckets_.end(), bucket) == buckets_.end()) {
      return Error(ErrorKind::unsupported, "stage " + stage_ + " has no bucket of " + std::to_string(bucket.tokens) + " tokens, " +
                                               std::to_string(bucket.seqs) + " sequences and " + std::to_string(bucket.markers) +
                                               " markers");
    }
    auto plan = program_.backend->lower(*program_.weights, *program_.graph, bucket, *workspace_);
    if (!plan) {
      return std::move(plan).error();
    }
    plans_.push_back({bucket, std::make_unique<typename B::Plan>(*std::move(plan))});
    return plans_.back().plan.get();
  }

  Program<B> program_;
  std::string stage_;
  std::vector<Bucket> buckets_;
  std::unique_ptr<typename B::Workspace> workspace_;  // before plans_: plans point into it
  std::vector<Entry> plans_;
};

}  // namespace kime
