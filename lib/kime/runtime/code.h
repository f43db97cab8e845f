// Code: a graph made for a bucket; and routines: code bound to a context's memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kime/runtime/context.h"
#include "kime/runtime/driver.h"

namespace kime {

/// A checkpoint as a kind of device sees it: the graph, and how its weights lie in memory there. Shared by all devices of the kind.
template <Driver D>
struct Model {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const typename D::Layout> layout;
};

/// What code computes.
template <Driver D>
struct GraphSource {
  Model<D> model;
  Bucket bucket;  ///< At most so many tokens, sequences and markers; the real counts are given at each launch.
};
/// A piece of `collected` from the merge buffer: the scores of one of `sources` checkpoints, for a batch of at most this bucket.
struct MergeSource {
  Bucket bucket;
  std::size_t sources = 1;
  MergeNode merge;
};
template <Driver D>
using CodeSource = std::variant<GraphSource<D>, MergeSource>;

template <Driver D>
struct CodeState {
  std::string name;
  CodeSource<D> source;
  LoweringOptions options;

  std::mutex mutex;
  std::shared_ptr<const typename D::Code> compiled;  ///< Of a GraphSource; made at link at the latest.
};

/// A handle; copies are the same code.
template <Driver D>
struct Code {
  std::shared_ptr<RuntimeLife> life;
  std::shared_ptr<CodeState<D>> state;
};

/// How compile() and compile_batch() go about it.
struct CompileOptions {
  bool shared = false;  ///< Do all that is device-independent now; else it may wait for the link.
  /// Which entries of a batch are compiled, by name and index; the places of the others are empty. Without it, all.
  std::function<bool(const std::string& name, std::size_t index)> occupancy;
};

template <Driver D>
using CodeBatch = std::vector<std::optional<Code<D>>>;

/// What one launch computes.
struct Launch {
  Extent counts;         ///< GraphSource: what the inputs hold.
  std::size_t slot = 0;  ///< MergeSource: which of its sources.
};

template <Driver D>
struct RoutineState {
  std::optional<typename D::Routine> native;  ///< Of a GraphSource.
};

/// A handle; its context comes after that in which it was linked.
template <Driver D>
struct Routine {
  Context context;
  Code<D> code;
  std::shared_ptr<RoutineState<D>> state;
};

}  // namespace kime
