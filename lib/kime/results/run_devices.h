// What each device did, from the document of `kime score --stats`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kime/base/error.h"

namespace kime {

struct RunDevice {
  std::string name;
  std::string bits_class;
  std::string precision;
  std::string retired;  ///< Why; empty where it was not.
  std::uint64_t streams = 0;
  std::uint64_t batches = 0;
  std::uint64_t records = 0;
  std::uint64_t tokens = 0;
  std::uint64_t padding = 0;
  std::uint64_t rescued = 0;
  std::uint64_t failures = 0;
  double busy_share = 0;
};

struct RunDevices {
  double seconds = 0;
  std::uint64_t records = 0;
  std::uint64_t failed = 0;
  std::uint64_t tokens = 0;
  std::uint64_t batches = 0;
  std::vector<RunDevice> devices;
};

/// Errors: `input`, naming the file and the field: it cannot be read, is no JSON, or no such document.
Result<RunDevices> read_run_devices(const std::string& path);

}  // namespace kime
