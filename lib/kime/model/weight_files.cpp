#include "kime/model/weight_files.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "kime/model/json.h"

namespace kime {
namespace {

constexpr std::uint64_t kMaxIndex = 100'000'000;  // what a safetensors header may have

Result<Safetensors> open_shard(const std::string& path) {
  auto file = File::open(path);
  if (!file) {
    return std::move(file).error();
  }
  return Safetensors::open(*std::move(file));
}

// A name that stays within its directory.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// Shard name -> the tensors that the index places there.
using Shards = std::map<std::string, std::set<std::string>>;

Result<Shards> parse_index(const File& index) {
  const auto text = index.text(kMaxIndex);
  if (!text) {
    return text.error();
  }
  const auto root = json::parse(*text, index.path(), json::Dialect::strict);
  if (!root) {
    return root.error();
  }
  const auto wrong = [&index](const std::string& what) { return Error(ErrorKind::input, fmt::format("{}: {}", index.path(), what)); };
  if (!root->is_object() || !root->contains("weight_map")) {
    return wrong("no weight_map; expected an object from tensors to files");
  }
  const auto& map = root->at("weight_map");
  if (!map.is_object()) {
    return wrong(fmt::format("weight_map is {}; expected an object from tensors to files", json::brief(map)));
  }
  Shards shards;
  for (const auto& [tensor, shard] : map.items()) {
    if (!shard.is_string()) {
      return wrong(
          fmt::format("weight_map has {} for tensor {}; expected the name of a file", json::brief(shard), json::brief_name(tensor)));
    }
    auto name = shard.get<std::string>();
    if (!is_plain_name(name)) {
      return wrong(fmt::format("weight_map has {} for tensor {}; expected the name of a file in the same directory", json::brief(shard),
                               json::brief_name(tensor)));
    }
    shards[std::move(name)].insert(tensor);
  }
  if (shards.empty()) {
    return wrong("weight_map is empty");
  }
  return shards;
}

// A shard must hold what the index places there and nothing else; with that, no tensor is in two shards.
std::optional<Error> check_shard(const File& index, const Safetensors& shard, const std::set<std::string>& mapped) {
  std::set<std::string_view> present;
  for (const auto& entry : shard.entries()) {
    present.insert(entry.name);
    if (!mapped.contains(entry.name)) {
      return Error(ErrorKind::input, fmt::format("{}: tensor {} stands in this file, but not in the weight_map of {}", shard.file().path(),
                                                 json::brief_name(entry.name), index.path()));
    }
  }
  for (const auto& tensor : mapped) {
    if (!present.contains(tensor)) {
      return Error(ErrorKind::input, fmt::format("{}: weight_map has tensor {} in {}, which lacks it", index.path(),
                                                 json::brief_name(tensor), shard.file().path()));
    }
  }
  return {};
}

Result<std::vector<Safetensors>> open_shards(const std::string& directory, const File& index) {
  const auto shards = parse_index(index);
  if (!shards) {
    return shards.error();
  }
  std::vector<Safetensors> files;
  for (const auto& [name, tensors] : *shards) {
    auto shard = open_shard(fmt::format("{}/{}", directory, name));
    if (!shard) {
      return std::move(shard).error();
    }
    if (auto error = check_shard(index, *shard, tensors)) {
      return *std::move(error);
    }
    files.push_back(*std::move(shard));
  }
  return files;
}

}  // namespace

Result<std::vector<Safetensors>> open_weight_files(const std::string& directory) {
  const auto path = directory + "/model.safetensors";
  auto whole = File::open_if_present(path);
  if (!whole) {
    return std::move(whole).error();
  }
  if (whole->has_value()) {
    auto file = Safetensors::open(**std::move(whole));
    if (!file) {
      return std::move(file).error();
    }
    std::vector<Safetensors> files;
    files.push_back(*std::move(file));
    return files;
  }
  const auto index = File::open_if_present(path + ".index.json");
  if (!index) {
    return index.error();
  }
  if (!index->has_value()) {
    return Error(ErrorKind::input,
                 fmt::format("{}: no model.safetensors and no model.safetensors.index.json; a checkpoint has one of them", directory));
  }
  return open_shards(directory, **index);
}

}  // namespace kime
