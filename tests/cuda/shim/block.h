// A block of threads at work: its fibers, their meetings, its shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda/shim/fiber.h"
#include "tests/cuda/shim/memory.h"
#include "tests/cuda/shim/shadow.h"
#include "tests/cuda/shim/types.h"

inline thread_local constinit uint3 threadIdx{};
inline thread_local constinit uint3 blockIdx{};
inline thread_local constinit dim3 blockDim{};
inline thread_local constinit dim3 gridDim{};

namespace kime::cuda::shim {

inline constexpr unsigned kWarp = 32;

/// What all lanes of a warp do together: given what each of them brought.
using Complete = void (*)(const std::array<void*, kWarp>& lanes);

/// Shared memory where a kernel declares it: one object for each declaration.
struct Site {
  const char* name;
};

class Block {
 public:
  /// Throws a Fault where the kernel does what it must not.
  Block(std::string_view kernel, dim3 grid, dim3 block, std::size_t dynamic_bytes, std::uint64_t seed, std::function<void()> body);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs the block at this place of the grid.
  void run(uint3 at);

  /// The block that the calling thread is in.
  [[nodiscard]] static Block& current();

  // What the wrappers call, in a thread of the block.
  void barrier();
  void sync_warp();
  void meet(Complete complete, const char* name, void* brought);
  [[nodiscard]] std::byte* dynamic() { return dynamic_.data(); }
  [[nodiscard]] void* shared(const Site& site, std::size_t bytes);
  void read_shared(const void* from, std::size_t bytes, std::size_t alignment);
  void write_shared(const void* to, std::size_t bytes, std::size_t alignment);
  void copy_async(void* to, const void* from, bool inside);
  void commit_copies();
  void wait_for_copies(std::size_t groups_left);
  void check_global(const void* at, std::size_t bytes, std::size_t alignment, bool write);
  /// What a warp reads as one, by the lane that named it.
  void read_shared_by_warp(const void* from, std::size_t bytes, unsigned lane);
  [[noreturn]] void fault(const std::string& what) const;

 private:
  struct Copy {
    std::byte* to = nullptr;
    const void* from = nullptr;
    bool inside = false;
    bool landed = false;
  };
  enum class State : std::uint8_t { ready, at_barrier, meeting, ended };
  struct Thread {
    std::unique_ptr<Fiber> fiber;
    uint3 index;
    State state = State::ready;
    Complete complete = nullptr;
    const char* meeting = nullptr;
    void* brought = nullptr;
    std::vector<Copy> uncommitted;
    std::deque<std::vector<Copy>> groups;
  };
  /// A piece of shared memory and its shadow.
  struct Area {
    const Site* site = nullptr;
    std::vector<std::byte> storage;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Shadow shadow;
    explicit Area(const Site* s, std::size_t size);
    void poison();
  };
  struct Spot {
    Area* area = nullptr;
    std::size_t offset = 0;
  };

  void start();
  void step(unsigned warp);
  void run_lanes(unsigned warp);
  bool settle(unsigned warp);
  bool release_barrier();
  void land_one(unsigned warp);
  static void land(Copy& copy);
  void finish(std::vector<Copy>& copies);
  [[noreturn]] void report_deadlock() const;
  void suspend(State state);
  [[nodiscard]] Access access() const;
  [[nodiscard]] Spot find(const void* at, std::size_t bytes, std::size_t alignment, const char* doing);
  void require(const std::string& wrong) const;
  [[nodiscard]] bool chance(unsigned one_in) { return random_() % one_in == 0; }

  std::string kernel_;
  dim3 grid_;
  dim3 size_;
  std::uint64_t seed_;
  std::function<void()> body_;
  std::function<void()> guarded_body_;
  std::mt19937_64 random_;
  std::vector<Range> global_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::uint32_t> warp_epochs_;
  Area dynamic_area_;
  std::span<std::byte> dynamic_;
  std::vector<std::unique_ptr<Area>> statics_;
  uint3 at_;
  unsigned running_ = 0;  ///< The thread that runs.
  bool in_thread_ = false;
  std::exception_ptr failure_;
  std::uint32_t epoch_ = 0;
  std::uint32_t first_epoch_ = 1;  ///< Of the block that runs.
};

}  // namespace kime::cuda::shim
