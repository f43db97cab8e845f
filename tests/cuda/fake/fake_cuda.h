// A CUDA driver of the host's own memory and threads: the functions that kime uses, as a table and as a library. Streams are threads that
// do their work after the calls have returned, device addresses point nowhere that the host could read, and the rules that a real driver
// would punish one day (a call without a current context, memory used after it was freed, an allocation inside a capture) are held at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kime/backend/cuda/api.h"

namespace kime::test {

struct FakeGpu {
  std::string name = "Fake GPU";
  int major = 9;
  int minor = 0;
  std::size_t memory_bytes = std::size_t{1} << 30;
  std::size_t context_bytes = 0;  ///< What a context takes of it.
  int multiprocessors = 4;
  bool operator==(const FakeGpu&) const = default;
};

struct FakeCudaConfig {
  int version = 12080;
  std::vector<FakeGpu> gpus{1};
  bool peers = true;                              ///< Devices can reach one another's memory, once that is switched on.
  cuda::Code init = cuda::Code::success;          ///< What cuInit gives.
  std::vector<std::string> without;               ///< Functions that cuGetProcAddress does not know.
  std::size_t graph_bytes = 0;                    ///< Device memory of an executable graph.
  std::size_t host_bytes = std::size_t{1} << 30;  ///< Pinned memory in all.
  /// Hears of each piece of memory and what it gives lives as long.
  std::function<std::shared_ptr<void>(const void* memory, std::size_t bytes)> on_memory;
};

/// What a launch brings to a kernel: its shape, and its parameters as they were when the launch was made or captured, with every device
/// address turned into a pointer that the host may use.
struct FakeLaunch {
  std::array<unsigned, 3> grid{};
  std::array<unsigned, 3> block{};
  std::size_t shared_bytes = 0;
  std::vector<std::vector<std::byte>> parameters;
};

struct FakeKernel {
  std::vector<std::size_t> parameter_bytes;
  std::function<cuda::Code(const FakeLaunch&)> run;  ///< What it returns is what the launch comes to, late.
};

struct FakeCudaState;

/// While it lives it is the driver behind the table. One at a time.
class FakeCuda {
 public:
  explicit FakeCuda(FakeCudaConfig config = {});
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;
  /// Lets all streams end.
  ~FakeCuda();

  /// The functions, initialized or not.
  [[nodiscard]] static const cuda::DriverApi& api();
  /// As the library exports them: cuDriverGetVersion, cuGetProcAddress and cuGetProcAddress_v2.
  [[nodiscard]] static void* symbol(std::string_view name);

  /// A kernel that every module has.
  void add_kernel(const std::string& name, FakeKernel kernel);

  /// The nth call from now on of a function fails; sticky errors poison the calling thread's context.
  void fail(const std::string& function, std::size_t nth, cuda::Code code);
  /// The nth call from now on of a function that works in stream order returns success, and its work fails when its turn comes.
  void fail_late(const std::string& function, std::size_t nth, cuda::Code code);
  /// Those that have not struck.
  void forget_faults();
  [[nodiscard]] std::size_t calls(const std::string& function);

  /// Streams do no more work until they are released.
  void hold();
  void release();
  /// Waits until a thread waits for an event or a stream inside the driver.
  void await_waiter();

  /// Rules that were broken.
  [[nodiscard]] std::vector<std::string> violations();
  [[nodiscard]] std::size_t used_bytes(std::size_t gpu);
  [[nodiscard]] std::size_t host_bytes();
  /// Events, streams, modules, graphs and retained contexts that are there now.
  [[nodiscard]] std::size_t handles();

 private:
  std::unique_ptr<FakeCudaState> state_;
};

}  // namespace kime::test
