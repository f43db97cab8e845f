// How many streams a device gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kime/base/error.h"

namespace kime {

/// What `--streams` says.
struct StreamStrategy {
  enum class Kind : std::uint8_t {
    automatic,  ///< What suits the kind of device: one per core on CPUs.
    one,        ///< One per device.
    overlap,    ///< Two per device, so that copies and host work overlap computing.
    cores,      ///< The most parallel: one per core.
    number,     ///< `count`.
  };
  static constexpr std::size_t kMost = 4096;

  Kind kind = Kind::automatic;
  std::size_t count = 0;
  bool operator==(const StreamStrategy&) const = default;

  /// The streams of a device of `cores` cores; `automatic` counts as `otherwise`.
  [[nodiscard]] std::size_t streams(std::size_t cores, Kind otherwise) const;
};

/// "one", "overlap", "cores", or a number from 1 to 4,096. Errors: `input`, naming the value.
[[nodiscard]] Result<StreamStrategy> parse_streams(std::string_view text);

}  // namespace kime
