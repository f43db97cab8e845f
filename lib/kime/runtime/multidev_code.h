// Multidev: code and routines.
#pragma once

#include <algorithm>

#include "kime/runtime/multidev.h"

namespace kime {

namespace detail {

template <class T>
std::optional<T> least(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? std::optional(std::min(*a, *b)) : a ? a : b;
}

}  // namespace detail

template <Driver D>
Result<HardwareLimits> Multidev<D>::hardware_limits() {
  calls_.count("hardware_limits");
  auto opened = driver();
  if (!opened) {
    return std::move(opened).error();
  }
  const std::lock_guard lock(mutex_);
  if (!limits_) {
    HardwareLimits all;
    for (std::size_t ordinal = 0; ordinal < (*opened)->num_devices(); ++ordinal) {
      const HardwareLimits each = (*opened)->limits(ordinal);
      all.bucket_tokens = detail::least(all.bucket_tokens, each.bucket_tokens);
      all.threads_per_group = detail::least(all.threads_per_group, each.threads_per_group);
      all.group_memory_bytes = detail::least(all.group_memory_bytes, each.group_memory_bytes);
    }
    limits_ = all;
  }
  return *limits_;
}

template <Driver D>
Result<Model<D>> Multidev<D>::model(std::shared_ptr<const Graph> graph, const TensorSource& tensors) {
  auto opened = driver();
  if (!opened) {
    return std::move(opened).error();
  }
  auto layout = (*opened)->layout(*graph, tensors);
  if (!layout) {
    return std::move(layout).error();
  }
  return Model<D>{std::move(graph), std::make_shared<const typename D::Layout>(*std::move(layout))};
}

template <Driver D>
Result<std::shared_ptr<const typename D::Code>> Multidev<D>::compiled(CodeState<D>& code) {
  auto opened = driver();
  if (!opened) {
    return std::move(opened).error();
  }
  const std::lock_guard lock(code.mutex);
  if (const auto* source = std::get_if<GraphSource<D>>(&code.source); source != nullptr && !code.compiled) {
    auto made = (*opened)->compile(*source->model.graph, source->bucket, code.options.limits);
    if (!made) {
      return std::move(made).error();
    }
    code.compiled = std::make_shared<const typename D::Code>(*std::move(made));
  }
  return code.compiled;
}

template <Driver D>
Result<Code<D>> Multidev<D>::compile(CodeSource<D> source, const std::string& name, const CompileOptions& options) {
  calls_.count("compile");
  auto limits = hardware_limits();
  if (!limits) {
    return std::move(limits).error();
  }
  const Bucket bucket = std::visit([](const auto& each) { return each.bucket; }, source);
  if (limits->bucket_tokens && bucket.tokens > *limits->bucket_tokens) {
    return Error(ErrorKind::unsupported, "a bucket of " + std::to_string(bucket.tokens) + " tokens; the devices run up to " +
                                             std::to_string(*limits->bucket_tokens));
  }
  auto state = std::make_shared<CodeState<D>>();
  state->name = name;
  state->source = std::move(source);
  state->options.limits = *limits;
  if (options.shared) {
    if (auto done = compiled(*state); !done) {
      return std::move(done).error();
    }
  }
  const std::lock_guard lock(mutex_);
  return Code<D>{life_, std::move(state)};
}

template <Driver D>
Result<CodeBatch<D>> Multidev<D>::compile_batch(std::vector<CodeSource<D>> sources, const std::vector<std::string>& names,
                                                const CompileOptions& options) {
  calls_.count("compile_batch");
  if (sources.size() != names.size()) {
    return Error(ErrorKind::device, std::to_string(sources.size()) + " sources but " + std::to_string(names.size()) + " names");
  }
  CodeBatch<D> batch(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (options.occupancy && !options.occupancy(names[i], i)) {
      continue;
    }
    auto code = compile(std::move(sources[i]), names[i], options);
    if (!code) {
      return std::move(code).error();
    }
    batch[i] = *std::move(code);
  }
  return batch;
}

template <Driver D>
Result<std::vector<std::optional<MergeNode>>> Multidev<D>::expected_merge_nodes(const CodeBatch<D>& batch) {
  calls_.count("expected_merge_nodes");
  std::vector<std::optional<MergeNode>> nodes(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i]) {
      if (auto checked = check_life(batch[i]->life, "code"); !checked) {
        return std::move(checked).error();
      }
      if (const auto* merge = std::get_if<MergeSource>(&batch[i]->state->source)) {
        nodes[i] = merge->merge;
      }
    }
  }
  return nodes;
}

// The highest context that has the same stream: the stream's arena and staging buffers are its, for all of its children.
template <Driver D>
Context Multidev<D>::owner_of_stream(const Context& context) const {
  auto owner = context.state;
  while (owner->parent && owner->parent->group == owner->group) {
    owner = owner->parent;
  }
  return Context{owner};
}

template <Driver D>
Status Multidev<D>::need_for(const Context& context, const CodeState<D>& code, const typename D::Code* compiled) {
  const Context owner = owner_of_stream(context);
  if (const auto* merge = std::get_if<MergeSource>(&code.source)) {
    return need(owner, Node::collected, merge->sources * ScoreLayout(merge->bucket).bytes, MemoryMode::device);
  }
  auto device = find(context);
  if (!device) {
    return std::move(device).error();
  }
  const Bucket& bucket = std::get<GraphSource<D>>(code.source).bucket;
  const std::pair<Node, std::size_t> needs[] = {{Node::arena, (*device)->driver->arena_bytes(context.state->device, *compiled)},
                                                {Node::inputs, BatchLayout(bucket).bytes},
                                                {Node::outputs, ScoreLayout(bucket).bytes}};
  for (const auto& [node, bytes] : needs) {
    if (auto made = need(owner, node, bytes, MemoryMode::device); !made) {
      return made;
    }
  }
  return {};
}

template <Driver D>
Result<Routine<D>> Multidev<D>::link(const Context& context, const Code<D>& code) {
  calls_.count("link");
  if (auto checked = check_life(code.life, "code"); !checked) {
    return std::move(checked).error();
  }
  auto on = stream_of(context);
  if (!on) {
    return std::move(on).error();
  }
  auto native = compiled(*code.state);
  if (!native) {
    return std::move(native).error();
  }
  auto state = std::make_shared<RoutineState<D>>();
  Child child;
  if (const auto* source = std::get_if<GraphSource<D>>(&code.state->source)) {
    auto weights = place(context, Node::weights, source->model.layout->bytes());
    if (!weights) {
      return std::move(weights).error();
    }
    auto linked = on->device->driver->link(context.state->device, *source->model.graph, *source->model.layout, **native, *weights);
    if (!linked) {
      return std::move(linked).error();
    }
    state->native.emplace(*std::move(linked));
  } else {
    child.merge = std::get<MergeSource>(code.state->source).merge;
  }
  if (auto made = need_for(context, *code.state, native->get()); !made) {
    return std::move(made).error();
  }
  auto linked_in = make_child(context, child);
  if (!linked_in) {
    return std::move(linked_in).error();
  }
  if (const auto* merge = std::get_if<MergeSource>(&code.state->source); merge != nullptr && merge->merge.use == MergeUse::copy) {
    ContextState& into = *linked_in->state;
    into.merge_bytes = ScoreLayout(merge->bucket).bytes;
    if (auto made = grow(into, into.merge_buffer, into.merge_bytes, MemoryMode::device); !made) {
      static_cast<void>(finalize(*linked_in));
      return std::move(made).error();
    }
  }
  return Routine<D>{*std::move(linked_in), code, std::move(state)};
}

template <Driver D>
Result<std::pair<Context, std::vector<std::optional<Routine<D>>>>> Multidev<D>::link_batch(const Context& context,
                                                                                           const CodeBatch<D>& batch,
                                                                                           std::span<const Node> from_prior_context) {
  calls_.count("link_batch");
  if (auto found = find(context); !found) {
    return std::move(found).error();
  }
  for (const Node node : from_prior_context) {
    if (!context.state->find(node)) {
      return Error(ErrorKind::device, "the prior context has no " + std::string(to_string(node)));
    }
  }
  std::vector<std::optional<Routine<D>>> routines(batch.size());
  Context last = context;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i]) {
      auto routine = link(last, *batch[i]);
      if (!routine) {
        for (; last.state != context.state; last = Context{last.state->parent}) {
          static_cast<void>(finalize(last));
        }
        return std::move(routine).error();
      }
      last = routine->context;
      routines[i] = *std::move(routine);
    }
  }
  return std::pair(std::move(last), std::move(routines));
}

template <Driver D>
Status Multidev<D>::launch_merge(const Routine<D>& routine, const MergeSource& source, std::size_t slot) {
  auto on = stream_of(routine.context);
  if (!on) {
    return std::move(on).error();
  }
  if (slot >= source.sources) {
    return Error(ErrorKind::device, "slot " + std::to_string(slot) + " of " + std::to_string(source.sources) + " sources");
  }
  ContextState& state = *routine.context.state;
  std::optional<Buffer> from;
  {
    const std::lock_guard lock(state.mutex);
    from = state.merge_kind == source.merge.use ? state.merge_source : std::nullopt;
  }
  if (!from) {
    return Error(ErrorKind::device, "nothing has been brought to the routine's merge buffer");
  }
  const std::size_t bytes = ScoreLayout(source.bucket).bytes;
  auto collected = state.find(Node::collected);
  if (!collected) {
    return Error(ErrorKind::device, "the context has no collected");
  }
  collected->offset += slot * bytes;
  return copy_on(*on, *from, *collected, bytes, "merge", state.group);
}

template <Driver D>
Status Multidev<D>::launch(const Routine<D>& routine, const Launch& launch) {
  calls_.count("launch");
  if (const auto* merge = std::get_if<MergeSource>(&routine.code.state->source)) {
    return launch_merge(routine, *merge, launch.slot);
  }
  auto on = stream_of(routine.context);
  if (!on) {
    return std::move(on).error();
  }
  const auto& source = std::get<GraphSource<D>>(routine.code.state->source);
  if (!source.bucket.holds(launch.counts.tokens, launch.counts.seqs, launch.counts.markers)) {
    return Error(ErrorKind::no_bucket, "the routine's bucket does not hold the batch");
  }
  // Looked up at each launch: the arena may have been replaced by a larger one.
  Places<typename D::Slab> places;
  const std::pair<Node, Place<typename D::Slab>*> wanted[] = {
      {Node::weights, &places.weights}, {Node::arena, &places.arena}, {Node::inputs, &places.inputs}, {Node::outputs, &places.outputs}};
  for (const auto& [node, where] : wanted) {
    auto found = place(routine.context, node, 0);
    if (!found) {
      return std::move(found).error();
    }
    *where = *found;
  }
  return run_on(*on, "run", routine.context.state->group, [state = routine.state, places, counts = launch.counts](D& driver, auto& native) {
    return driver.run(native, *state->native, places, counts);
  });
}

}  // namespace kime
