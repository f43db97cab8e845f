// Running a kernel's grid on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/cuda/shim/types.h"

namespace kime::cuda::shim {

inline constexpr unsigned kMostThreads = 1024;
inline constexpr std::size_t kMostStaticBytes = std::size_t{48} << 10;
inline constexpr std::size_t kMostDynamicBytes = std::size_t{227} << 10;  ///< Compute capability 9.0; less on others.

/// A kernel did what it must not. The message names kernel, block, thread and seed.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `body` in every thread of the grid: its blocks one after another in random order, each block's warps in random order between
/// synchronizations. The same seed gives the same order. Any host thread, several at a time.
void run_grid(std::string_view kernel, dim3 grid, dim3 block, std::size_t shared_bytes, std::uint64_t seed,
              const std::function<void()>& body);

template <class Params>
void launch(std::string_view name, void (*kernel)(Params), dim3 grid, dim3 block, std::size_t shared_bytes,
            const std::type_identity_t<Params>& params, std::uint64_t seed) {
  run_grid(name, grid, block, shared_bytes, seed, [&] { kernel(params); });
}

/// A kernel that KIME_KERNEL declared, as a loader of modules finds it: by name, its parameters as bytes.
struct Kernel {
  std::string name;
  std::size_t params_bytes = 0;
  unsigned most_threads = 0;
  std::function<void(const void* params)> call;

  void launch(dim3 grid, dim3 block, std::size_t shared_bytes, const void* params, std::uint64_t seed) const;
};

/// Launches by name go there from now on, instead of running on the host: to a device.
using Elsewhere = std::function<void(const Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes, const void* params)>;
void launch_elsewhere(Elsewhere elsewhere);

/// By name, or nullptr.
[[nodiscard]] const Kernel* find_kernel(std::string_view name);
[[nodiscard]] std::vector<const Kernel*> kernels();

/// Launches the kernel of this name. Throws a Fault when there is none with such parameters.
template <class Params>
void launch(std::string_view name, dim3 grid, dim3 block, std::size_t shared_bytes, const Params& params, std::uint64_t seed) {
  const Kernel* kernel = find_kernel(name);
  if (kernel == nullptr || kernel->params_bytes != sizeof(Params)) {
    throw Fault("no kernel " + std::string(name) + " with such parameters");
  }
  kernel->launch(grid, block, shared_bytes, &params, seed);
}

/// Makes a kernel known; a static object of the kernel's own file.
class Registered {
 public:
  template <class Params>
  Registered(const char* name, void (*kernel)(Params), unsigned most_threads) {
    add({name, sizeof(Params), most_threads, [kernel](const void* bytes) {
           std::remove_const_t<Params> params;
           std::memcpy(&params, bytes, sizeof(params));
           kernel(params);
         }});
  }

 private:
  static void add(Kernel kernel);
};

}  // namespace kime::cuda::shim
