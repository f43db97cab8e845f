// The executable CUDA graphs of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "kime/backend/cuda/device_context.h"

namespace kime::cuda {

/// Where a routine finds its memory at one launch.
struct LaunchAddresses {
  DeviceAddress weights = 0;
  DeviceAddress arena = 0;
  DeviceAddress inputs = 0;
  DeviceAddress outputs = 0;
  bool operator==(const LaunchAddresses&) const = default;
};

/// Owned; one that is under way ends before the driver frees it.
class GraphExec {
 public:
  GraphExec(std::shared_ptr<DeviceContext> context, GraphExecHandle handle) : context_(std::move(context)), handle_(handle) {}
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;
  ~GraphExec();
  [[nodiscard]] GraphExecHandle handle() const { return handle_; }

 private:
  std::shared_ptr<DeviceContext> context_;
  GraphExecHandle handle_;
};

/// Keeps them by the routine that made them and the addresses that they hold, and lets those go that were used longest ago when memory is
/// short. Any thread.
class Graphs {
 public:
  explicit Graphs(std::shared_ptr<DeviceContext> context) : context_(std::move(context)) {}

  /// A number for a routine.
  [[nodiscard]] std::uint64_t new_owner();
  /// Null where there is none, or none any more.
  [[nodiscard]] std::shared_ptr<GraphExec> find(std::uint64_t owner, const LaunchAddresses& addresses);
  /// Makes `graph` executable, for which others may have to go. Null where even without any other there is no memory for it. Errors:
  /// `device`.
  Result<std::shared_ptr<GraphExec>> add(std::uint64_t owner, const LaunchAddresses& addresses, GraphHandle graph);
  /// Lets go of all that a routine made.
  void forget(std::uint64_t owner);
  /// Lets go of the one that was used longest ago; false where there is none.
  bool evict();

  [[nodiscard]] std::size_t size();
  [[nodiscard]] std::size_t evicted();

 private:
  struct Entry {
    std::uint64_t owner;
    LaunchAddresses addresses;
    std::shared_ptr<GraphExec> exec;
  };

  std::shared_ptr<DeviceContext> context_;
  std::mutex mutex_;
  std::list<Entry> entries_;  ///< The one used last stands first.
  std::uint64_t owners_ = 0;
  std::size_t evicted_ = 0;
};

}  // namespace kime::cuda
