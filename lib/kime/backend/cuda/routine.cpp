#include "kime/backend/cuda/routine.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace kime::cuda {

Routine::Routine(std::shared_ptr<DeviceParts> parts, BucketCode code)
    : parts_(std::move(parts)), code_(std::move(code)), owner_(parts_->graphs.new_owner()) {
}

Routine::Routine(Routine&& other) noexcept
    : parts_(std::move(other.parts_)),
      code_(std::move(other.code_)),
      owner_(std::exchange(other.owner_, 0)),
      counts_(other.counts_),
      ropes_(std::move(other.ropes_)),
      steps_(std::move(other.steps_)),
      has_products_(other.has_products_) {
}

Routine::~Routine() {
  if (owner_ != 0) {
    parts_->graphs.forget(owner_);
  }
}

Status Routine::add_kernel(KernelLaunch launch) {
  const auto& facts = parts_->context->facts();
  if (launch.shared_bytes > facts.shared_bytes_per_block || launch.threads > facts.threads_per_block) {
    return Error(ErrorKind::unsupported,
                 fmt::format("{} needs {} threads and {} bytes of shared memory; {} has {} and {}", launch.kernel, launch.threads,
                             launch.shared_bytes, facts.name, facts.threads_per_block, facts.shared_bytes_per_block));
  }
  auto function = parts_->modules.find(launch.kernel, launch.shared_bytes);
  if (!function) {
    return std::move(function).error();
  }
  steps_.emplace_back(KernelStep{*function, std::move(launch)});
  return {};
}

Result<Routine> Routine::link(std::shared_ptr<DeviceParts> parts, const Graph& graph, const WeightLayout& layout, const BucketCode& code) {
  Routine routine(std::move(parts), code);
  DeviceParts& shared = *routine.parts_;
  std::optional<Error> failed;
  std::vector<const VerifiedProduct*> chosen;
  const auto takes = [&](const ProductLaunch& product) {
    auto choice = failed ? Result<const VerifiedProduct*>(*failed) : shared.products.choose(product);
    if (!choice) {
      failed = std::move(choice).error();
      return false;
    }
    if (*choice != nullptr) {
      chosen.push_back(*choice);
    }
    return *choice != nullptr;
  };
  LoweredGraph lowered = lower(graph, layout, code, static_cast<unsigned>(shared.context->facts().multiprocessors), takes);
  if (failed) {
    return *std::move(failed);
  }
  for (const RopeSpec& spec : lowered.ropes) {
    auto rope = shared.ropes.get(spec.theta, spec.head_width, code.bucket().tokens);
    if (!rope) {
      return std::move(rope).error();
    }
    routine.ropes_.push_back(*std::move(rope));
  }
  const KernelLaunch counts = set_counts(code, {});
  auto set = shared.modules.find(counts.kernel, counts.shared_bytes);
  if (!set) {
    return std::move(set).error();
  }
  routine.counts_ = *set;
  auto next = chosen.begin();  // in the order in which products were asked for
  for (LoweredStep& step : lowered.steps) {
    if (const auto* product = std::get_if<ProductLaunch>(&step)) {
      routine.steps_.emplace_back(ProductStep{*next++, *product});
      routine.has_products_ = true;
    } else if (auto added = routine.add_kernel(std::get<KernelLaunch>(std::move(step))); !added) {
      return std::move(added).error();
    }
  }
  return routine;
}

DeviceAddress Routine::address_of(const Ref& ref, const LaunchAddresses& addresses) const {
  switch (ref.region) {
    case Region::weights:
      return addresses.weights + ref.offset;
    case Region::inputs:
      return addresses.inputs + ref.offset;
    case Region::outputs:
      return addresses.outputs + ref.offset;
    case Region::cosine:
      return ropes_[ref.offset]->cosine();
    case Region::sine:
      return ropes_[ref.offset]->sine();
    case Region::arena:
      break;
  }
  return addresses.arena + ref.offset;
}

Status Routine::launch(const KernelStep& step, StreamHandle stream, const Bound& bound) const {
  std::vector<std::byte> params = step.launch.params;
  for (const auto& pointer : step.launch.pointers) {
    const DeviceAddress address = address_of(pointer.to, bound.addresses);
    std::memcpy(params.data() + pointer.at, &address, sizeof(address));
  }
  void* parameters[] = {params.data()};  // the driver copies them
  const auto& [x, y] = step.launch.grid;
  const Code code = parts_->context->api().launch_kernel(step.function, x, y, 1, step.launch.threads, 1, 1,
                                                         static_cast<unsigned>(step.launch.shared_bytes), stream, parameters, nullptr);
  return code == Code::success ? Status() : parts_->context->check("cuLaunchKernel of " + step.launch.kernel, code);
}

Status Routine::launch(const ProductStep& step, StreamHandle stream, const Bound& bound) const {
  const ProductLaunch& product = step.product;
  const auto at = [&](const Ref& ref) { return address_of(ref, bound.addresses); };
  return parts_->products.run(*step.chosen, stream, {at(product.a), at(product.w), at(product.c)}, product.rows, bound.workspace);
}

Status Routine::launch_all(StreamHandle stream, const Bound& bound) const {
  for (const Step& step : steps_) {
    if (auto launched = std::visit([&](const auto& each) { return launch(each, stream, bound); }, step); !launched) {
      return launched;
    }
  }
  return {};
}

Result<GraphHandle> Routine::capture(StreamHandle stream, const Bound& bound) const {
  DeviceContext& context = *parts_->context;
  // Thread-local: what other threads allocate meanwhile does not break it.
  const Code begun = context.api().stream_begin_capture(stream, CaptureMode::thread_local_);
  if (auto began = context.check("cuStreamBeginCapture", begun); !began) {
    return std::move(began).error();
  }
  auto launched = launch_all(stream, bound);
  GraphHandle graph = nullptr;
  auto ended = context.check("cuStreamEndCapture", context.api().stream_end_capture(stream, &graph));  // in any case: it frees the stream
  if (launched && ended) {
    return graph;
  }
  if (graph != nullptr) {
    static_cast<void>(context.api().graph_destroy(graph));
  }
  return launched ? std::move(ended).error() : std::move(launched).error();
}

Result<std::shared_ptr<GraphExec>> Routine::executable(StreamHandle stream, const Bound& bound) {
  if (auto found = parts_->graphs.find(owner_, bound.addresses)) {
    return found;
  }
  const auto graph = capture(stream, bound);
  if (!graph) {
    return graph.error();
  }
  DeviceContext& context = *parts_->context;
  auto exec = parts_->graphs.add(owner_, bound.addresses, *graph);
  static_cast<void>(context.api().graph_destroy(*graph));
  if (exec && *exec != nullptr) {
    const Code code = context.api().graph_upload((*exec)->handle(), stream);
    if (auto uploaded = context.check("cuGraphUpload", code); !uploaded) {
      parts_->graphs.forget(owner_);
      return std::move(uploaded).error();
    }
  }
  return exec;
}

Status Routine::run(Stream& stream, const LaunchAddresses& addresses, const Extent& counts) {
  DeviceContext& context = *parts_->context;
  if (auto bound = context.bind(); !bound) {
    return bound;
  }
  Bound bound{addresses};
  if (has_products_) {
    auto workspace = stream.workspace(parts_->products.workspace_bytes());
    if (!workspace) {
      return std::move(workspace).error();
    }
    bound.workspace = *workspace;
  }
  auto exec = executable(stream.handle(), bound);
  if (!exec) {
    return std::move(exec).error();
  }
  if (auto counted = launch(KernelStep{counts_, set_counts(code_, counts)}, stream.handle(), bound); !counted) {
    return counted;
  }
  if (*exec == nullptr) {
    return launch_all(stream.handle(), bound);  // no memory for a graph
  }
  return context.check("cuGraphLaunch", context.api().graph_launch((*exec)->handle(), stream.handle()));
}

}  // namespace kime::cuda
