// A graph's launches on a device, captured once for each set of addresses and replayed with one call.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kime/backend/cuda/graphs.h"
#include "kime/backend/cuda/library_products.h"
#include "kime/backend/cuda/lowering.h"
#include "kime/backend/cuda/modules.h"
#include "kime/backend/cuda/rope_tables.h"
#include "kime/backend/cuda/stream.h"

namespace kime::cuda {

/// What all routines of a device share.
struct DeviceParts {
  DeviceParts(const std::shared_ptr<DeviceContext>& shared, std::vector<const void*> images, ProductsConfig library)
      : context(shared), modules(shared, std::move(images)), ropes(shared), products(shared, std::move(library)), graphs(shared) {}

  std::shared_ptr<DeviceContext> context;
  Modules modules;
  DeviceRopes ropes;
  LibraryProducts products;
  Graphs graphs;
};

/// Of one stream: used by its thread alone, also where the stream's other routines use the same arena.
class Routine {
 public:
  /// Finds its kernels and makes its tables; allocates, and so is no part of a capture. Errors: `device`; `unsupported` where a kernel
  /// needs more than the device has.
  static Result<Routine> link(std::shared_ptr<DeviceParts> parts, const Graph& graph, const WeightLayout& layout, const BucketCode& code);
  Routine(Routine&& other) noexcept;
  Routine& operator=(Routine&&) = delete;
  ~Routine();

  /// Enqueues a batch of so many tokens, sequences and markers. Errors: `device`; the stream is then as it was, or its device has failed.
  Status run(Stream& stream, const LaunchAddresses& addresses, const Extent& counts);

 private:
  struct KernelStep {
    FunctionHandle function;
    KernelLaunch launch;
  };
  struct ProductStep {
    const VerifiedProduct* chosen;
    ProductLaunch product;
  };
  using Step = std::variant<KernelStep, ProductStep>;
  /// What a launch's places are.
  struct Bound {
    LaunchAddresses addresses;
    DeviceAddress workspace = 0;  ///< The stream's; where a library does some products.
  };
  Routine(std::shared_ptr<DeviceParts> parts, BucketCode code);

  Status add_kernel(KernelLaunch launch);
  [[nodiscard]] DeviceAddress address_of(const Ref& ref, const LaunchAddresses& addresses) const;
  Status launch(const KernelStep& step, StreamHandle stream, const Bound& bound) const;
  Status launch(const ProductStep& step, StreamHandle stream, const Bound& bound) const;
  Status launch_all(StreamHandle stream, const Bound& bound) const;
  Result<GraphHandle> capture(StreamHandle stream, const Bound& bound) const;
  Result<std::shared_ptr<GraphExec>> executable(StreamHandle stream, const Bound& bound);

  std::shared_ptr<DeviceParts> parts_;
  BucketCode code_;
  std::uint64_t owner_;  ///< Of its graphs; 0: it was moved away.
  FunctionHandle counts_ = nullptr;
  std::vector<std::shared_ptr<const DeviceRope>> ropes_;
  std::vector<Step> steps_;
  bool has_products_ = false;
};

}  // namespace kime::cuda
