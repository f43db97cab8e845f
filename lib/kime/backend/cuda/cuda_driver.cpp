#include "kime/backend/cuda/cuda_driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "kime/backend/cuda/errors.h"
#include "kime/backend/cuda/weight_upload.h"

namespace kime {

static_assert(Driver<CudaDriver>);

namespace {

// Streams beside which more would only wait for one another.
constexpr std::size_t kMostStreams = 8;

cuda::DeviceAddress address(const Place<cuda::Slab>& place) {
  return place.slab->address() + place.offset;
}

// Makes a call for some bytes, if there are any, in the stream's context.
template <class Call>
Status enqueue(cuda::Stream& stream, std::size_t bytes, std::string_view function, const Call& call) {
  auto& context = stream.context();
  if (auto bound = context.bind(); !bound || bytes == 0) {
    return bound;
  }
  return context.check(function, call());
}

Result<cuda::BlasLibrary> find_blas(const CudaDriver::Config& config) {
  if (config.blas != nullptr) {
    return cuda::start_blas(*config.blas);
  }
  auto found = cuda::find_cublaslt(config.cublaslt);
  return found ? cuda::open_blas(*found) : std::move(found).error();
}

}  // namespace

CudaDriver::CudaDriver(const Config& config, cuda::DriverLibrary library, cuda::FoundDevices found)
    : api_(std::make_shared<const cuda::DriverApi>(library.api)),
      version_(library.version),
      left_out_(std::move(found.left_out)),
      has_kernels_(!config.images.empty()) {
  cuda::ProductsConfig products{{}, config.product_rows, config.verdicts, config.products};
  if (auto blas = find_blas(config)) {
    cublaslt_ = blas->version;
    products.blas = *std::move(blas);
  } else {
    no_cublaslt_ = blas.error().message();
  }
  if (!products.verdicts) {
    products.verdicts = std::make_shared<cuda::ProductVerdicts>();
  }
  for (auto& facts : found.devices) {
    devices_.push_back(std::make_shared<cuda::DeviceContext>(api_, std::move(facts)));
    parts_.push_back(std::make_shared<cuda::DeviceParts>(devices_.back(), config.images, products));
  }
}

Result<std::unique_ptr<CudaDriver>> CudaDriver::open(const Config& config) {
  auto library = config.table != nullptr ? cuda::start_driver(*config.table) : cuda::open_driver(config.libcuda);
  if (!library) {
    return std::move(library).error();
  }
  auto found = cuda::find_devices(library->api);
  if (!found) {
    return std::move(found).error();
  }
  if (found->devices.empty()) {
    std::string all;
    for (const auto& device : found->left_out) {
      all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", device.name, device.why);
    }
    return Error(ErrorKind::device, "the NVIDIA driver has no device that kime can use: " + all);
  }
  return std::unique_ptr<CudaDriver>(new CudaDriver(config, *std::move(library), *std::move(found)));
}

DeviceProperties CudaDriver::properties(std::size_t ordinal) const {
  cuda::DeviceContext& device = *devices_[ordinal];
  const auto& facts = device.facts();
  DeviceProperties known;
  known.kind = kName;
  known.bits_class =
      fmt::format("cuda {}, compute capability {}, cuBLASLt {}", facts.name, facts.capability(), cublaslt_.empty() ? "none" : cublaslt_);
  known.name = facts.name;
  known.cores = facts.multiprocessors;
  known.speed_hint = static_cast<double>(facts.multiprocessors) * static_cast<double>(facts.clock_khz);
  known.memory_bytes = facts.memory_bytes;
  known.memory_modes = "device and pinned_host; managed is device";
  known.facts = {
      {"compute_capability", facts.capability()},
      {"pci_bus_id", facts.pci_bus_id},
      {"uuid", facts.uuid},
      {"clock_mhz", facts.clock_khz / 1000},
      {"driver", {{"cuda", cuda::version_text(version_)}, {"cublaslt", cublaslt_.empty() ? nlohmann::json() : nlohmann::json(cublaslt_)}}}};
  std::size_t free = 0;
  std::size_t total = 0;
  auto asked = device.bind();
  if (asked) {
    asked = device.check("cuMemGetInfo", api_->mem_get_info(&free, &total));
  }
  if (asked) {
    known.memory_used_bytes = total - std::min(free, total);
  } else {
    known.facts["memory_error"] = asked.error().message();
  }
  return known;
}

HardwareLimits CudaDriver::limits(std::size_t ordinal) const {
  const auto& facts = devices_[ordinal]->facts();
  return {.bucket_tokens = {}, .threads_per_group = facts.threads_per_block, .group_memory_bytes = facts.shared_bytes_per_block};
}

Caps CudaDriver::caps(std::size_t ordinal) const {
  return {.name = kName,
          .threads = devices_[ordinal]->facts().multiprocessors,
          .graphs = true,
          .unified_memory = false,
          .padded_products = parts_[ordinal]->products.enabled()};
}

std::size_t CudaDriver::suggested_streams(std::size_t ordinal, StreamStrategy strategy) const {
  return strategy.streams(std::min(devices_[ordinal]->facts().multiprocessors, kMostStreams), StreamStrategy::Kind::overlap);
}

nlohmann::json CudaDriver::debug_info(std::size_t ordinal) const {
  cuda::DeviceContext& device = *devices_[ordinal];
  const std::string died_of = device.died_of();
  return {{"cuda_number", device.facts().number},
          {"driver_version", version_},
          {"context", device.made()},
          {"graphs", {{"kept", parts_[ordinal]->graphs.size()}, {"evicted", parts_[ordinal]->graphs.evicted()}}},
          {"sticky_error", died_of.empty() ? nlohmann::json() : nlohmann::json(died_of)}};
}

Result<CudaDriver::Slab> CudaDriver::alloc(std::size_t ordinal, std::size_t bytes, std::size_t alignment, MemoryMode mode) {
  if (mode == MemoryMode::pinned_host) {
    return Slab::pinned(devices_[ordinal], bytes, alignment);
  }
  auto slab = Slab::on_device(devices_[ordinal], bytes, alignment);
  while (!slab && devices_[ordinal]->alive() && parts_[ordinal]->graphs.evict()) {
    slab = Slab::on_device(devices_[ordinal], bytes, alignment);
  }
  return slab;
}

Status CudaDriver::zero(Stream& stream, Place<Slab> place, std::size_t bytes) {
  return enqueue(stream, bytes, "cuMemsetD8Async", [&] { return api_->memset_d8_async(address(place), 0, bytes, stream.handle()); });
}

Status CudaDriver::copy_in(Stream& stream, Place<Slab> to, const void* from, std::size_t bytes) {
  if (auto bound = stream.context().bind(); !bound || bytes == 0) {
    return bound;
  }
  return stream.copy_in(address(to), from, bytes);
}

Status CudaDriver::copy_out(Stream& stream, void* to, Place<Slab> from, std::size_t bytes) {
  return enqueue(stream, bytes, "cuMemcpyDtoHAsync", [&] { return api_->memcpy_dtoh_async(to, address(from), bytes, stream.handle()); });
}

Status CudaDriver::copy(Stream& stream, Place<Slab> to, Place<Slab> from, std::size_t bytes) {
  auto& context = stream.context();
  if (auto bound = context.bind(); !bound || bytes == 0) {
    return bound;
  }
  if (!to.slab->is_pinned() && to.slab->context().get() != &context) {
    return Error(ErrorKind::device, "a copy to a device goes by one of its own streams");
  }
  const auto& source = from.slab->context();
  if (from.slab->is_pinned() || source.get() == &context) {
    return context.check("cuMemcpyAsync", api_->memcpy_async(address(to), address(from), bytes, stream.handle()));
  }
  if (reaches(context, *source)) {
    if (auto bound = context.bind(); !bound) {
      return bound;
    }
    return context.check("cuMemcpyPeerAsync",
                         api_->memcpy_peer_async(address(to), context.handle(), address(from), source->handle(), bytes, stream.handle()));
  }
  return stream.copy_staged(source, address(to), address(from), bytes);
}

// Access that cannot be had is no failure: copies then take the other way.
bool CudaDriver::reaches(cuda::DeviceContext& to, cuda::DeviceContext& from) {
  const std::lock_guard lock(peering_);
  const auto [found, made] = peers_.try_emplace({&to, &from}, false);
  if (made) {
    int can = 0;
    const auto code = api_->device_can_access_peer(&can, to.facts().number, from.facts().number);
    if (code == cuda::Code::success && can != 0 && to.bind()) {
      const auto enabled = api_->ctx_enable_peer_access(from.handle(), 0);
      found->second = enabled == cuda::Code::success || enabled == cuda::Code::peer_access_already_enabled;
    }
  }
  return found->second;
}

Result<std::unique_ptr<CudaDriver::Stream>> CudaDriver::make_stream(std::size_t ordinal, std::size_t /*subordinal*/) {
  return Stream::make(ordinal, devices_[ordinal]);
}

void CudaDriver::enter(Stream& stream, const std::function<void()>& body) {
  static_cast<void>(stream.context().bind());  // each function binds too, and says so where it cannot
  body();
}

Status CudaDriver::wait_for(Stream& stream, Stream& other, Ticket ticket) {
  auto event = other.marks().pending(ticket);
  if (!event) {
    return std::move(event).error();
  }
  auto& context = stream.context();
  if (auto bound = context.bind(); !bound || !*event) {
    return bound;
  }
  return (*event)->wait_in(context, stream.handle());
}

Result<CudaDriver::Layout> CudaDriver::layout(const Graph& graph, const TensorSource& tensors) const {
  if (!has_kernels_) {
    return Error(ErrorKind::device, kNoKernels);
  }
  return Layout::make(graph, tensors);
}

Status CudaDriver::load(Stream& stream, const Graph& graph, const Layout& layout, const TensorSource& tensors, Place<Slab> place) {
  auto upload = cuda::WeightUpload::make(stream, devices_[stream.ordinal()], address(place));
  if (!upload) {
    return std::move(upload).error();
  }
  auto loaded = cuda::load_weights(tensors, graph, layout, *upload);
  auto copied = upload->finish();
  return loaded ? copied : loaded;
}

Result<CudaDriver::Code> CudaDriver::compile(const Graph& graph, const Bucket& bucket, const HardwareLimits& /*limits*/) {
  return Code::compile(graph, bucket);  // whether a device has what its kernels need shows when it is linked
}

Result<CudaDriver::Routine> CudaDriver::link(std::size_t ordinal, const Graph& graph, const Layout& layout, const Code& code,
                                             Place<Slab> /*weights*/) {
  return Routine::link(parts_[ordinal], graph, layout, code);
}

Status CudaDriver::run(Stream& stream, Routine& routine, const Places<Slab>& places, const Extent& counts) {
  return routine.run(stream, {address(places.weights), address(places.arena), address(places.inputs), address(places.outputs)}, counts);
}

}  // namespace kime
