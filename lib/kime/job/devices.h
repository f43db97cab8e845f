// What `kime devices` tells.
#pragma once

#include <nlohmann/json.hpp>

#include "kime/base/error.h"
#include "kime/job/fleet.h"

namespace kime {

/// Everything that a run with these options would use, and what is missing for more:
/// {"devices": [...], "limits": {...}, "unused": [...], "missing": [{"kind", "why"}], "debug": {...}}, the last where `debug` asks for it.
/// Each device has the runtime's static properties and "streams", how many it would get. "unused" are devices that are there and would not
/// be used: their properties, or as much as is known, and "why". "limits" are the CPU's, whose code they bound. Opens the CUDA driver,
/// where there is one. Errors: `input` for the options.
Result<nlohmann::json> describe_devices(const CpuFleetOptions& cpu, bool debug);

}  // namespace kime
