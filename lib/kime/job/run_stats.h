// What a run did, device by device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kime/base/precision.h"

namespace kime {

struct DeviceStats {
  std::string name;
  std::string bits_class;
  Precision precision = Precision::f32;
  std::size_t streams = 0;
  std::uint64_t batches = 0;
  std::uint64_t records = 0;
  std::uint64_t tokens = 0;
  std::uint64_t rescued = 0;   ///< How often a record was scored again, in a precision of a wider range.
  std::uint64_t padding = 0;   ///< Tokens that were computed for nothing.
  std::uint64_t failures = 0;  ///< Batches.
  double busy = 0;             ///< Seconds, over its streams.
  std::string retired;         ///< Why, if it was.

  /// Of the time that all of its streams had, the share in which they were at work.
  [[nodiscard]] double busy_share(double seconds) const {
    return seconds > 0 && streams > 0 ? busy / (seconds * static_cast<double>(streams)) : 0;
  }
};

/// One object a device: the counts, and busy and idle shares of a run of `seconds`.
[[nodiscard]] nlohmann::json to_json(const std::vector<DeviceStats>& devices, double seconds);

}  // namespace kime
