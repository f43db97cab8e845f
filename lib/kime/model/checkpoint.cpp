#include "kime/model/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "kime/model/file.h"
#include "kime/model/json.h"
#include "kime/model/weight_files.h"

namespace kime {
namespace {

constexpr const char* kAgentFile = "rl_agent_config.json";
constexpr const char* kEncoderFile = "encoder/config.json";

Status check_directory(const std::string& directory) {
  const auto wrong = [&directory](std::string_view what) {
    return Error(ErrorKind::input, fmt::format("{}: {}; expected a checkpoint directory, with {}, {} and model.safetensors", directory,
                                               what, kAgentFile, kEncoderFile));
  };
  struct stat status = {};
  if (stat(directory.c_str(), &status) != 0) {
    return wrong(std::strerror(errno));
  }
  if (!S_ISDIR(status.st_mode)) {
    return wrong("not a directory");
  }
  return {};
}

Result<std::string> read_config_file(const std::string& directory, const std::string& name) {
  constexpr std::uint64_t kMaxConfig = 16 << 20;
  const auto file = File::open_if_present(directory + "/" + name);
  if (!file) {
    return file.error();
  }
  if (!file->has_value()) {
    return Error(ErrorKind::input, fmt::format("{}: no {}; expected a checkpoint directory, with {}, {} and model.safetensors", directory,
                                               name, kAgentFile, kEncoderFile));
  }
  return (*file)->text(kMaxConfig);
}

Result<ParsedConfig> read_config(const std::string& directory) {
  const auto encoder = read_config_file(directory, kEncoderFile);
  if (!encoder) {
    return encoder.error();
  }
  const auto agent = read_config_file(directory, kAgentFile);
  if (!agent) {
    return agent.error();
  }
  return parse_config(*encoder, directory + "/" + kEncoderFile, *agent, directory + "/" + kAgentFile);
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const auto dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (name == to_string(dtype)) {
      return dtype;
    }
  }
  return {};
}

// Older checkpoints carry the temperatures as a tensor too; those of the configuration stand.
bool is_temperature(const SafetensorsEntry& entry) {
  return entry.name == "temperature";
}

// All that is wrong with a checkpoint's tensors, for one message.
struct Complaints {
  std::vector<std::string> missing;
  std::vector<std::string> extra;
  std::vector<std::string> misshapen;
  std::vector<std::string> dtypes;

  [[nodiscard]] Status status(const std::string& directory) const {
    std::vector<std::string> parts;
    const auto add = [&parts](const std::vector<std::string>& names, std::string_view one, std::string_view many) {
      if (!names.empty()) {
        parts.push_back(fmt::format("{} {}: {}", names.size(), names.size() == 1 ? one : many, fmt::join(names, ", ")));
      }
    };
    add(missing, "tensor is missing", "tensors are missing");
    add(extra, "tensor is not of this model", "tensors are not of this model");
    add(misshapen, "tensor has a wrong shape", "tensors have a wrong shape");
    const bool only_dtypes = parts.empty();
    add(dtypes, "tensor is neither F32, F16 nor BF16", "tensors are neither F32, F16 nor BF16");
    if (parts.empty()) {
      return {};
    }
    return Error(only_dtypes ? ErrorKind::unsupported : ErrorKind::input, fmt::format("{}: {}", directory, fmt::join(parts, "; ")));
  }
};

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& directory) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory.substr(0, directory.find_last_not_of('/') + 1);  // paths in messages without "//"
  if (auto status = check_directory(directory); !status) {
    return status.error();
  }
  auto config = read_config(checkpoint.directory_);
  if (!config) {
    return std::move(config).error();
  }
  checkpoint.config_ = *std::move(config);
  auto files = open_weight_files(checkpoint.directory_);
  if (!files) {
    return std::move(files).error();
  }
  checkpoint.files_ = *std::move(files);
  checkpoint.specs_ = expected_tensors(checkpoint.config());
  if (auto status = checkpoint.find_tensors(); !status) {
    return status.error();
  }
  return checkpoint;
}

Status Checkpoint::find_tensors() {
  struct Found {
    Place place;
    bool used = false;
  };
  std::map<std::string_view, Found> found;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const auto entries = files_[f].entries();
    for (std::size_t e = 0; e < entries.size(); ++e) {
      found[entries[e].name] = {.place = {.file = f, .entry = e}};
    }
  }
  Complaints complaints;
  for (const auto& spec : specs_) {
    const auto at = found.find(spec.name);
    if (at == found.end()) {
      complaints.missing.push_back(spec.name);
      continue;
    }
    at->second.used = true;
    auto place = at->second.place;
    const auto& entry = files_[place.file].entries()[place.entry];
    const auto dtype = parse_dtype(entry.dtype);
    if (entry.shape != spec.shape) {
      complaints.misshapen.push_back(fmt::format("{} {}, expected {}", spec.name, entry.shape, spec.shape));
    }
    if (!dtype) {
      complaints.dtypes.push_back(fmt::format("{} ({} in {})", spec.name, entry.dtype, files_[place.file].file().path()));
    }
    place.dtype = dtype.value_or(DType::f32);
    places_.push_back(place);
  }
  const std::vector<std::size_t> temperatures = {ModelConfig::types};
  for (const auto& [name, tensor] : found) {
    const auto& entry = files_[tensor.place.file].entries()[tensor.place.entry];
    if (is_temperature(entry)) {
      if (entry.shape != temperatures) {
        complaints.misshapen.push_back(fmt::format("{} {}, expected {}", name, entry.shape, temperatures));
      }
    } else if (!tensor.used) {
      complaints.extra.push_back(json::brief_name(name));
    }
  }
  return complaints.status(directory_);
}

Status Checkpoint::read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const {
  const auto& place = places_[index];
  const auto& file = files_[place.file];
  return file.read(file.entries()[place.entry], offset, out);
}

std::vector<Checkpoint::WeightFile> Checkpoint::weight_files() const {
  std::vector<WeightFile> files;
  for (const auto& file : files_) {
    const auto& path = file.file().path();
    files.push_back({.name = path.substr(directory_.size() + 1), .bytes = file.file().size()});
  }
  return files;
}

std::array<std::uint64_t, 3> Checkpoint::parameters_by_dtype() const {
  std::array<std::uint64_t, 3> counts = {};
  for (std::size_t i = 0; i < size(); ++i) {
    std::uint64_t count = 1;  // no overflow: the bytes of so many elements are in a file
    for (const auto extent : shape(i)) {
      count *= extent;
    }
    counts[static_cast<std::size_t>(dtype(i))] += count;
  }
  return counts;
}

std::uint64_t Checkpoint::parameters() const {
  std::uint64_t sum = 0;
  for (const auto count : parameters_by_dtype()) {
    sum += count;
  }
  return sum;
}

std::uint64_t Checkpoint::weight_bytes() const {
  const auto counts = parameters_by_dtype();
  std::uint64_t sum = 0;
  for (const auto dtype : {DType::f32, DType::f16, DType::bf16}) {
    sum += counts[static_cast<std::size_t>(dtype)] * size_of(dtype);
  }
  return sum;
}

}  // namespace kime
