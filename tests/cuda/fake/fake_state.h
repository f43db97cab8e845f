// What the fake driver keeps, for its own functions.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/fake/fake_cuda.h"

namespace kime::test {

using cuda::Code;
using cuda::DeviceAddress;

/// Device addresses begin here, each device 2^40 on: no pointer of a process on x86-64 or arm64 looks like this.
inline constexpr DeviceAddress kDeviceBase = 0x00DE'0000'0000'0000;
inline constexpr DeviceAddress kDeviceRoom = DeviceAddress{1} << 40;

/// One allocation. Poisoned, and fenced on both sides.
class FakeMemory {
 public:
  static constexpr std::byte kPoison{0xA5};
  FakeMemory(int gpu, std::size_t bytes) : gpu(gpu), bytes(bytes), words_((bytes + 2 * kFence + sizeof(Unit) - 1) / sizeof(Unit)) {
    std::byte* all = whole();
    std::fill_n(all, kFence, kFenceByte);
    std::fill_n(data(), bytes, kPoison);
    std::fill_n(data() + bytes, words_.size() * sizeof(Unit) - kFence - bytes, kFenceByte);
  }
  [[nodiscard]] std::byte* data() { return whole() + kFence; }
  [[nodiscard]] bool fences_stand() {
    const auto stands = [](std::byte byte) { return byte == kFenceByte; };
    return std::all_of(whole(), data(), stands) && std::all_of(data() + bytes, whole() + words_.size() * sizeof(Unit), stands);
  }
  const int gpu;  ///< -1: pinned host memory
  const std::size_t bytes;
  std::shared_ptr<void> companion;  ///< FakeCudaConfig::on_memory's.

 private:
  struct alignas(256) Unit {
    std::array<std::byte, 256> bytes;
  };
  static constexpr std::size_t kFence = 256;
  static constexpr std::byte kFenceByte{0xFD};
  std::byte* whole() { return words_.data()->bytes.data(); }
  std::vector<Unit> words_;
};

struct FakeContext {
  int gpu = 0;
  std::size_t references = 0;
  Code dying = Code::success;   ///< No more work begins.
  Code sticky = Code::success;  ///< All of it has stopped, and calls say so.
  std::set<int> peers;          ///< Whose memory it may use.
};

/// What a stream does, or a graph's node. Runs without the state's lock.
using FakeWork = std::function<Code()>;

struct FakeExec {
  std::shared_ptr<FakeContext> context;
  std::vector<FakeWork> nodes;
  std::size_t in_flight = 0;
  std::uint64_t stream = 0;  ///< Where it was launched last.
};

struct FakeGraph {
  std::vector<FakeWork> nodes;
  std::shared_ptr<FakeContext> context;
};

struct FakeCapture {
  std::thread::id thread;
  cuda::CaptureMode mode = cuda::CaptureMode::global;
  bool invalidated = false;
  FakeGraph graph;
};

struct FakeStreamState {
  std::uint64_t id = 0;
  std::shared_ptr<FakeContext> context;
  std::deque<FakeWork> work;
  bool busy = false;
  bool closing = false;
  std::optional<FakeCapture> capture;
  std::thread thread;
};

struct FakeEvent {
  std::shared_ptr<FakeContext> context;
  std::uint64_t recorded = 0;
  std::uint64_t completed = 0;
  Code failed = Code::success;  ///< What the last one came to.
  bool captured = false;
};

struct FakeModule {
  std::shared_ptr<FakeContext> context;
};

struct FakeFunction {
  std::uint64_t module = 0;
  std::string name;
  int dynamic_shared_bytes = 48 << 10;
};

struct FakeFault {
  std::size_t left = 0;  ///< Calls until it strikes.
  Code code = Code::success;
  bool late = false;
};

struct FakeCudaState {
  FakeCudaConfig config;
  std::mutex mutex;  ///< Of all below.
  std::condition_variable moved;
  bool initialized = false;
  bool held = false;
  std::size_t waiters = 0;
  std::uint64_t next_handle = 0x1000;
  std::map<std::string, std::size_t> counts;
  std::multimap<std::string, FakeFault> faults;
  std::vector<std::string> broken;
  std::map<std::string, FakeKernel> kernels;

  std::vector<std::shared_ptr<FakeContext>> primaries;             ///< By GPU; one that is not retained has no references.
  std::map<std::uint64_t, std::shared_ptr<FakeContext>> contexts;  ///< By handle; stays when it is released.
  std::vector<DeviceAddress> next_address;                         ///< By GPU.
  std::vector<std::size_t> used;
  std::size_t host_used = 0;
  std::map<DeviceAddress, std::shared_ptr<FakeMemory>> memory;
  std::map<std::uint64_t, std::shared_ptr<FakeStreamState>> streams;
  std::map<std::uint64_t, std::shared_ptr<FakeEvent>> events;
  std::map<std::uint64_t, FakeModule> modules;
  std::map<std::uint64_t, FakeFunction> functions;
  std::map<std::uint64_t, FakeGraph> graphs;
  std::map<std::uint64_t, std::shared_ptr<FakeExec>> execs;
  std::vector<std::thread> ending;

  /// A new piece of memory, of a GPU or of the host (-1).
  [[nodiscard]] std::shared_ptr<FakeMemory> new_memory(int gpu, std::size_t bytes) const {
    auto made = std::make_shared<FakeMemory>(gpu, bytes);
    if (config.on_memory) {
      made->companion = config.on_memory(made->data(), bytes);
    }
    return made;
  }
  std::uint64_t new_handle() { return next_handle += 0x10; }
  void violation(std::string what) { broken.push_back(std::move(what)); }
  /// The end of a context. As on a device, nothing of it is under way any more when the first call says so.
  void poison(std::unique_lock<std::mutex>& lock, const std::shared_ptr<FakeContext>& context, Code code);
  /// `bytes` at an address, for work of a context; null, and a violation, where they are not to be had. The memory is kept by `keep`.
  std::byte* reach(const FakeContext& context, DeviceAddress address, std::size_t bytes, std::shared_ptr<FakeMemory>& keep);
  [[nodiscard]] bool idle(const FakeContext& context) const;
};

/// A call under way: the state is locked.
struct FakeCall {
  FakeCudaState& state;
  std::unique_lock<std::mutex>& lock;
  const char* name;
  std::shared_ptr<FakeContext> context;  ///< The calling thread's; none where the function needs none.
  std::optional<Code> late;              ///< What its work must come to.

  /// Waits for something that a stream does. Gives the context's sticky error where there is one.
  Code wait(const FakeContext& of, const std::function<bool()>& done) const;
  /// What must not be called while this thread captures: breaks the capture.
  [[nodiscard]] bool refused_in_capture() const;
  /// Work in stream order, or a node of the graph that is being captured.
  Code enqueue(cuda::StreamHandle stream, FakeWork work) const;
  [[nodiscard]] std::shared_ptr<FakeStreamState> find_stream(cuda::StreamHandle stream) const;
};

enum class FakeNeeds : std::uint8_t { nothing, init, context };

/// The frame of every function: counts, faults, and what it needs.
Code fake_call(const char* name, FakeNeeds needs, const std::function<Code(FakeCall&)>& body);

/// Sets the calling thread's context.
void fake_set_current(FakeCudaState& state, std::uint64_t context);

template <class Handle>
std::uint64_t number(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}
template <class Handle>
Handle handle(std::uint64_t number) {
  return reinterpret_cast<Handle>(number);  // NOLINT(performance-no-int-to-ptr): nobody follows it
}

/// Each concept's functions.
void add_fake_devices(cuda::DriverApi& api);
void add_fake_memory(cuda::DriverApi& api);
void add_fake_streams(cuda::DriverApi& api);
void add_fake_kernels(cuda::DriverApi& api);
void add_fake_graphs(cuda::DriverApi& api);

}  // namespace kime::test
