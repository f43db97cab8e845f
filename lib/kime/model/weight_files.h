// The files that hold a checkpoint's weights.
#pragma once

#include <string>
#include <vector>

#include "kime/base/error.h"
#include "kime/model/safetensors.h"

namespace kime {

/// Opens `model.safetensors` of a directory, else the shards that `model.safetensors.index.json` names. In several files no tensor stands
/// twice, and each stands where the index has it.
/// Errors: `input`, naming the file, and the tensor where there is one.
Result<std::vector<Safetensors>> open_weight_files(const std::string& directory);

}  // namespace kime
