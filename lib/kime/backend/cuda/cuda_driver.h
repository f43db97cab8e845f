// NVIDIA GPUs as devices of the runtime.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kime/backend/cuda/library.h"
#include "kime/backend/cuda/routine.h"
#include "kime/backend/cuda/stream.h"
#include "kime/runtime/driver.h"

namespace kime {

/// Satisfies the runtime's Driver concept.
class CudaDriver {
 public:
  static constexpr std::string_view kName = "cuda";
  /// What keeps a kime without any images from scoring.
  static constexpr const char* kNoKernels = "this kime was built without its CUDA kernels";

  struct Config {
    std::string libcuda = "libcuda.so.1";
    std::vector<std::string> cublaslt = {"libcublasLt.so.13", "libcublasLt.so.12"};  ///< The first that is there.
    const cuda::DriverApi* table = nullptr;                                          ///< For tests: no library is opened.
    std::vector<const void*> images;  ///< The kernels, as cuda::Modules takes them; without any, devices can be looked at and no more.
    /// Tokens of each bucket of the run: cuBLASLt does products once they have been verified for all of these. Without any, kernels do.
    std::vector<std::size_t> product_rows;
    std::shared_ptr<cuda::ProductVerdicts> verdicts;  ///< Where it is kept what was verified, if anywhere.
    const cuda::BlasApi* blas = nullptr;              ///< For tests: no cuBLASLt is opened.
    cuda::ProductOptions products;
    bool operator==(const Config&) const = default;
  };
  using Slab = cuda::Slab;
  using Stream = cuda::Stream;
  using Layout = cuda::WeightLayout;
  using Code = cuda::BucketCode;
  using Routine = cuda::Routine;

  /// Opens the driver and looks at its devices; makes no context. Errors: `device`: no driver, too old, no device that will do, in one
  /// sentence each.
  static Result<std::unique_ptr<CudaDriver>> open(const Config& config);

  [[nodiscard]] std::size_t num_devices() const { return devices_.size(); }
  /// Makes the device's context, to say how much of its memory is in use. Where that fails `memory_error` says why, and nothing counts as
  /// in use.
  [[nodiscard]] DeviceProperties properties(std::size_t ordinal) const;
  [[nodiscard]] HardwareLimits limits(std::size_t ordinal) const;
  [[nodiscard]] Caps caps(std::size_t ordinal) const;
  [[nodiscard]] std::size_t suggested_streams(std::size_t ordinal, StreamStrategy strategy) const;
  [[nodiscard]] bool shares_memory(std::size_t a, std::size_t b) const { return a == b; }
  [[nodiscard]] bool alive(std::size_t ordinal) const { return devices_[ordinal]->alive(); }
  [[nodiscard]] nlohmann::json debug_info(std::size_t ordinal) const;
  /// Devices that the driver has and kime cannot use.
  [[nodiscard]] const std::vector<cuda::LeftOut>& left_out() const { return left_out_; }
  /// Why there is no cuBLASLt; "" where there is one.
  [[nodiscard]] const std::string& no_cublaslt() const { return no_cublaslt_; }

  /// Where memory is short, graphs that were captured before make room.
  Result<Slab> alloc(std::size_t ordinal, std::size_t bytes, std::size_t alignment, MemoryMode mode);
  Status zero(Stream& stream, Place<Slab> place, std::size_t bytes);
  Status copy_in(Stream& stream, Place<Slab> to, const void* from, std::size_t bytes);
  Status copy_out(Stream& stream, void* to, Place<Slab> from, std::size_t bytes);
  /// To the stream's device or pinned memory; directly where the device reaches the other's memory, else through pinned memory.
  Status copy(Stream& stream, Place<Slab> to, Place<Slab> from, std::size_t bytes);

  Result<std::unique_ptr<Stream>> make_stream(std::size_t ordinal, std::size_t subordinal);
  void enter(Stream& stream, const std::function<void()>& body);
  Status record(Stream& stream, Ticket ticket) { return stream.record(ticket); }
  Result<bool> reached(Stream& stream, Ticket ticket) { return stream.marks().reached(ticket); }
  Result<bool> finish(Stream& stream, Ticket ticket, Deadline deadline) { return stream.marks().finish(ticket, deadline); }
  Status wait_for(Stream& stream, Stream& other, Ticket ticket);

  /// Errors: also `device`, for a kime without its CUDA kernels.
  Result<Layout> layout(const Graph& graph, const TensorSource& tensors) const;
  Status load(Stream& stream, const Graph& graph, const Layout& layout, const TensorSource& tensors, Place<Slab> place);
  Result<Code> compile(const Graph& graph, const Bucket& bucket, const HardwareLimits& limits);
  [[nodiscard]] std::size_t arena_bytes(std::size_t /*ordinal*/, const Code& code) const { return code.arena_bytes(); }
  Result<Routine> link(std::size_t ordinal, const Graph& graph, const Layout& layout, const Code& code, Place<Slab> weights);
  Status run(Stream& stream, Routine& routine, const Places<Slab>& places, const Extent& counts);

 private:
  CudaDriver(const Config& config, cuda::DriverLibrary library, cuda::FoundDevices found);
  bool reaches(cuda::DeviceContext& to, cuda::DeviceContext& from);

  std::shared_ptr<const cuda::DriverApi> api_;
  int version_;
  std::string cublaslt_;  ///< Its version; "" where there is none.
  std::string no_cublaslt_;
  std::vector<cuda::LeftOut> left_out_;
  bool has_kernels_;
  std::vector<std::shared_ptr<cuda::DeviceContext>> devices_;
  std::vector<std::shared_ptr<cuda::DeviceParts>> parts_;  ///< Of each device.
  std::mutex peering_;
  std::map<std::pair<const cuda::DeviceContext*, const cuda::DeviceContext*>, bool> peers_;  ///< Whether the first reaches the second.
};

}  // namespace kime
