// Between the reader and the lanes: who takes which batch next, and what becomes of those that fail.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kime/batch/bucket.h"
#include "kime/batch/packer.h"
#include "kime/job/dispatch_policy.h"
#include "kime/job/lane.h"
#include "kime/job/recovery.h"
#include "kime/job/run_stats.h"

namespace kime {

/// One reader pushes small batches; lanes pull, several at once where their device wants more. From any thread. Waiting costs no CPU time.
class Dispatcher {
 public:
  struct Hooks {
    std::function<RecordSize(std::uint64_t number)> size_of;  ///< Of a record that is under way.
    std::function<void(const std::string&)> notice{};         ///< Hears of devices that are retired; may be empty.
    std::function<bool()> stopped{};                          ///< Whether the reader need not wait for room any more; may be empty.
  };
  /// `buckets`: what is taken together is held by one of them.
  Dispatcher(std::span<const FleetDevice> devices, std::span<const std::shared_ptr<Lane>> lanes, std::span<const Bucket> buckets,
             Hooks hooks);

  // ---- the reader

  /// Hands on batches, once there is room; false when nobody will take them all. Once the run is stopped it waits for the next batch to be
  /// taken at most.
  bool push(std::span<Work> works);
  /// No more will come; `drop`: what nobody has taken yet is dropped.
  void close(bool drop);
  /// Nobody need score any more: what waits is dropped.
  void abort();

  // ---- a lane

  enum class Next : std::uint8_t {
    work,
    repair,  ///< A device of the lane has been retired: mend the lane, or leave.
    end,     ///< Nothing will come any more.
  };
  Next pull(std::size_t lane, Work& work);
  /// The batch was scored in `seconds`, in this bucket; so many of its records once more.
  void scored(std::size_t lane, const Work& work, const Bucket& bucket, double seconds, std::size_t rescued = 0);
  /// It was not: the records to give up are returned, the rest goes on its way again.
  std::vector<std::uint64_t> failed(std::size_t lane, Work work, const LaneFailure& failure, double seconds);
  /// The lane goes on with these devices.
  void repaired(std::size_t lane, std::vector<std::size_t> devices);
  /// A lane goes on no more. True when it was the last and there is something left to do, or may be: nobody will do it.
  bool leave(std::size_t lane);
  /// Devices that are retired.
  [[nodiscard]] std::vector<char> retired();

  // ---- after the end

  /// All lanes have left while there was something to do; the last failure.
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] const std::vector<DeviceStats>& stats() const { return stats_; }
  /// How often a batch was tried.
  [[nodiscard]] std::uint64_t batches() const { return batches_; }

 private:
  [[nodiscard]] double now() const;
  bool take_again(std::size_t lane, Work& work);
  bool take_waiting(std::size_t lane, Work& work);
  [[nodiscard]] bool broken(std::size_t lane) const;
  [[nodiscard]] bool stopped() const { return hooks_.stopped && hooks_.stopped(); }
  [[nodiscard]] bool finished() const { return closed_ && waiting_.empty() && again_.empty() && in_flight_ == 0; }
  void retire(std::size_t device, const std::string& why);
  void changed();
  void tell(std::size_t batches);

  std::span<const Bucket> buckets_;
  Hooks hooks_;
  std::size_t most_tokens_ = 0;  ///< That wait.

  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable work_;
  DispatchPolicy policy_;
  Recovery recovery_;
  std::vector<DeviceStats> stats_;
  std::vector<char> padded_;
  std::vector<std::vector<std::size_t>> lanes_;  ///< The devices of each; none of one that has left.
  std::deque<Work> waiting_;
  std::deque<Work> again_;
  std::size_t waiting_tokens_ = 0;
  /// It was, and more than half still waits: a reader that woke for each batch would cost more than it brings.
  bool full_ = false;
  std::uint64_t batches_ = 0;
  std::size_t in_flight_ = 0;
  std::size_t working_lanes_ = 0;
  bool ensemble_ = false;
  bool suspect_in_flight_ = false;
  bool closed_ = false;
  bool aborted_ = false;
  bool lost_ = false;
  std::string why_;
};

}  // namespace kime
