// What becomes of a batch that a device has failed on, and of the device: the rules, without threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace kime {

/// A batch on its way: records by number, and where they have failed.
struct Work {
  std::uint64_t id = 0;
  std::vector<std::uint64_t> numbers;
  std::size_t tokens = 0;
  std::size_t markers = 0;
  std::vector<std::size_t> failed_on;  ///< Devices, one entry a failure.
  bool suspect = false;                ///< It was with a device that was lost: one at a time, alone.
};

/// The rules:
///
/// - A batch that fails on two devices, or twice on one where there is no other for it, is halved; a single record that does is given up.
/// - A device that is lost takes no more. A batch that was on it is suspected of having killed it: its records go on one by one, only one
///   suspect at a time in the whole fleet, so that a record that kills each device it meets costs two of them, and no other record.
/// - A device is retired when two of its batches in a row fail and others then score them; the last one never is.
/// - When no device is left nothing is given up: nobody can say that it was the record's fault.
///
/// One lock of its user's guards it.
class Recovery {
 public:
  explicit Recovery(std::size_t devices) : devices_(devices), live_(devices) {}

  struct Verdict {
    std::vector<Work> again;              ///< Their tokens and markers are not filled in.
    std::vector<std::uint64_t> given_up;  ///< Records that get an error.
  };
  /// `work` failed on `device`, which was lost by it if `lost` says so.
  Verdict failed(Work work, std::size_t device, bool lost);
  /// `work` was scored by `devices` together. Returns the devices that this shows to be broken: they are then retired.
  std::vector<std::size_t> scored(const Work& work, std::span<const std::size_t> devices);
  /// A device takes no more.
  void retire(std::size_t device);

  [[nodiscard]] bool retired(std::size_t device) const { return devices_[device].retired; }
  [[nodiscard]] std::size_t live() const { return live_; }
  /// Whether `lane` of `lanes`, each the devices that it uses together, is a good place for `work`: it has failed on none of them, or
  /// there is no lane of which that can be said. A lane without devices, or with a retired one, is no place.
  [[nodiscard]] bool may_take(const Work& work, std::span<const std::vector<std::size_t>> lanes, std::size_t lane) const;

  [[nodiscard]] std::uint64_t next_id() { return ++ids_; }

 private:
  /// A device may fail much faster than others score what it failed on: many more than two failures can wait for that.
  static constexpr std::size_t kStreak = 1024;
  struct Failure {
    std::uint64_t work = 0;
    bool scored_elsewhere = false;
  };
  struct DeviceRecord {
    bool retired = false;
    std::deque<Failure> in_a_row;  ///< Since it last scored something; the last kStreak.
  };

  Verdict suspects(Work work);
  Verdict halve(Work work);

  std::vector<DeviceRecord> devices_;
  std::size_t live_;
  std::uint64_t ids_ = 0;
};

}  // namespace kime
