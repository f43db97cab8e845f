#include "kime/graph/op_groups.h"

#include <algorithm>
#include <string_view>

namespace kime {

namespace {

// Takes `prefix` off `name`, if it is there, with the number and the dot that follow it.
bool strip_layer(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return false;
  }
  name.remove_prefix(prefix.size());
  name.remove_prefix(std::min(name.find('.') + 1, name.size()));
  return true;
}

std::string weight_group(std::string_view name) {
  constexpr std::string_view kSuffix = "weight";
  if (name.ends_with(kSuffix)) {
    name.remove_suffix(std::min(kSuffix.size() + 1, name.size()));  // and the dot or the underscore before it
  }
  if (strip_layer(name, "encoder.layers.")) {
    return std::string(name);
  }
  if (strip_layer(name, "head.layers.")) {
    constexpr std::string_view kAttention = "self_attn.";
    name.remove_prefix(name.starts_with(kAttention) ? kAttention.size() : 0);
    return "head " + std::string(name);
  }
  return std::string(name.substr(0, name.find('.')));
}

struct Namer {
  const Graph& graph;

  std::string operator()(const Embed& /*op*/) const { return "embed"; }
  std::string operator()(const LayerNorm& /*op*/) const { return "norm"; }
  std::string operator()(const Gemm& op) const { return "gemm " + weight_group(graph.weights[op.weight].name); }
  std::string operator()(const Attention& op) const { return op.reach ? "attention window" : "attention full"; }
  template <class Other>
  std::string operator()(const Other& /*op*/) const {
    return "other";
  }
};

}  // namespace

std::string op_group(const Graph& graph, const Op& op) {
  return std::visit(Namer{graph}, op);
}

OpGroups op_groups(const Graph& graph) {
  OpGroups groups;
  for (const Op& op : graph.ops) {
    const std::string name = op_group(graph, op);
    const auto at = std::ranges::find(groups.names, name) - groups.names.begin();
    groups.group_of.push_back(static_cast<std::size_t>(at));
    if (static_cast<std::size_t>(at) == groups.names.size()) {
      groups.names.push_back(name);
    }
  }
  return groups;
}

}  // namespace kime
