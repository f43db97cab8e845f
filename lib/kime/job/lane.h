// What scores batches for a job: a stream of a device, or several for an ensemble.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kime/base/error.h"
#include "kime/base/precision.h"
#include "kime/batch/batch.h"
#include "kime/batch/bucket.h"

namespace kime {

/// Why a batch was not scored. Devices are counted over the whole fleet.
struct LaneFailure {
  Error error;
  std::size_t device = 0;
  bool lost = false;  ///< Nothing more can be done on that device.
};

/// A record of a batch that is without scores, while the others have theirs.
struct Unscored {
  std::size_t sequence = 0;
  Error error;
};

/// A lane's batch in hand, on the host's side.
struct LaneHost {
  BatchBuffer buffer;
  std::vector<Outputs> outputs;    ///< One for each checkpoint.
  std::vector<Unscored> unscored;  ///< In the order of their sequences.
  std::size_t rescued = 0;         ///< How often a record was scored again by itself, in a precision of a wider range.
};

/// Used by one thread at a time.
class Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;

  /// The devices that it uses; the first one's speed is the lane's.
  [[nodiscard]] virtual std::vector<std::size_t> devices() const = 0;
  /// Makes ready for these buckets.
  virtual std::optional<LaneFailure> prepare(std::span<const Bucket> buckets) = 0;
  /// Scores the host's buffer, a sound batch, with each checkpoint; all but what it then has under `unscored`. `used` is the bucket that
  /// held it. After a failure the lane may have another host: a call that hangs keeps the old one.
  virtual std::optional<LaneFailure> score(Bucket& used) = 0;
  /// Goes on without the devices for which `retired` is not 0. False where that cannot be.
  virtual bool repair(std::span<const char> retired) = 0;

  std::shared_ptr<LaneHost> host = std::make_shared<LaneHost>();
};

/// A device of a fleet.
struct FleetDevice {
  std::string name;        ///< "cpu:0"
  std::string bits_class;  ///< Devices of one class give the same bits.
  std::size_t streams = 0;
  std::size_t target = 0;  ///< Tokens of its best batch.
  bool padded = false;     ///< Padding to the bucket is computed.
  Precision precision = Precision::f32;
};

}  // namespace kime
