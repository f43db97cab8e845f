// The code of one checkpoint: a bucket is compiled once, for all devices of a kind.
#pragma once

#include <algorithm>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kime/runtime/multidev.h"

namespace kime {

/// From any thread.
template <Driver D>
class CodeCache {
 public:
  /// The runtime outlives it.
  CodeCache(Multidev<D>& runtime, Model<D> model) : runtime_(runtime), model_(std::move(model)) {}

  [[nodiscard]] const Model<D>& model() const { return model_; }

  /// Compiles those of `buckets` that are `wanted` at once. Errors: those of compiling.
  Status prepare(std::span<const Bucket> buckets, std::span<const Bucket> wanted) {
    std::vector<CodeSource<D>> sources;
    std::vector<std::string> names;
    for (const Bucket& bucket : buckets) {
      sources.push_back(GraphSource<D>{model_, bucket});
      names.push_back(name_of(bucket));
    }
    const std::lock_guard lock(mutex_);
    auto batch = runtime_.compile_batch(
        std::move(sources), names, {.shared = true, .occupancy = [&](const std::string&, std::size_t index) {
                                      return std::ranges::find(wanted, buckets[index]) != wanted.end() && find(buckets[index]) == nullptr;
                                    }});
    if (!batch) {
      return std::move(batch).error();
    }
    for (std::size_t i = 0; i < batch->size(); ++i) {
      if ((*batch)[i]) {
        codes_.emplace_back(buckets[i], *std::move((*batch)[i]));
      }
    }
    return {};
  }

  /// The code for a bucket, compiled now if it was not before. Errors: those of compiling.
  Result<Code<D>> get(const Bucket& bucket) {
    const std::lock_guard lock(mutex_);
    if (const Code<D>* code = find(bucket)) {
      return *code;
    }
    auto code = runtime_.compile(GraphSource<D>{model_, bucket}, name_of(bucket), {.shared = true, .occupancy = {}});
    if (code) {
      codes_.emplace_back(bucket, *code);
    }
    return code;
  }

  /// The code that is there, in the order in which it was compiled; empty places for none.
  [[nodiscard]] CodeBatch<D> batch(std::span<const Bucket> buckets) {
    const std::lock_guard lock(mutex_);
    CodeBatch<D> batch;
    for (const Bucket& bucket : buckets) {
      const Code<D>* code = find(bucket);
      batch.push_back(code != nullptr ? std::optional(*code) : std::nullopt);
    }
    return batch;
  }

 private:
  static std::string name_of(const Bucket& bucket) {
    return std::to_string(bucket.tokens) + " tokens, " + std::to_string(bucket.seqs) + " sequences, " + std::to_string(bucket.markers) +
           " markers";
  }
  [[nodiscard]] const Code<D>* find(const Bucket& bucket) const {
    const auto found = std::ranges::find(codes_, bucket, &std::pair<Bucket, Code<D>>::first);
    return found == codes_.end() ? nullptr : &found->second;
  }

  Multidev<D>& runtime_;
  Model<D> model_;
  std::mutex mutex_;
  std::vector<std::pair<Bucket, Code<D>>> codes_;
};

}  // namespace kime
