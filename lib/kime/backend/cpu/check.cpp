#include "kime/backend/cpu/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/cpu/narrow.h"

namespace kime::cpu {

namespace {

constexpr std::uint32_t kHeadStep = 8;
constexpr std::uint32_t kWidestHead = 128;

template <class... Args>
Error unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorKind::unsupported, fmt::format(format, std::forward<Args>(args)...)};
}

Status check_tensors(const Graph& graph, const TensorSource& tensors) {
  if (tensors.size() != graph.weights.size()) {
    return unsupported("{} tensors for a graph of {} weights", tensors.size(), graph.weights.size());
  }
  for (std::size_t i = 0; i < graph.weights.size(); ++i) {
    const Weight& weight = graph.weights[i];
    if (const auto shape = tensors.shape(i); !std::ranges::equal(shape, weight.shape)) {
      return unsupported("{} has shape [{}], the graph's has [{}]", weight.name, fmt::join(shape, ", "), fmt::join(weight.shape, ", "));
    }
  }
  return {};
}

class OpCheck {
 public:
  explicit OpCheck(const Graph& graph) : graph_(graph) {}

  Status operator()(const Embed& op) const { return table(op.table, op.out); }
  Status operator()(const AddType& op) const { return table(op.table, op.value); }

  Status operator()(const LayerNorm& op) const {
    const std::size_t width = value(op.in).width;
    if (value(op.out).width != width || !is_vector(op.weight, width) || (op.bias && !is_vector(*op.bias, width))) {
      return unsupported("layer norm {} over {} columns", weight(op.weight).name, width);
    }
    return {};
  }

  Status operator()(const Gemm& op) const {
    const Weight& matrix = weight(op.weight);
    const std::size_t in = value(op.in).width;
    const std::uint32_t out = op.activation == Activation::geglu ? op.count / 2 : op.count;
    if (matrix.shape.size() != 2 || matrix.shape[1] != in || op.first > matrix.shape[0] || op.count > matrix.shape[0] - op.first ||
        op.count == 0 || value(op.out).width != out || value(op.out).rows != value(op.in).rows) {
      return unsupported("rows {} to {} of {} [{}] from {} to {} columns", op.first, op.first + op.count, matrix.name,
                         fmt::join(matrix.shape, ", "), in, value(op.out).width);
    }
    if (op.bias && (weight(*op.bias).shape.size() != 1 || weight(*op.bias).shape[0] != matrix.shape[0])) {
      return unsupported("bias {} for {} rows", weight(*op.bias).name, matrix.shape[0]);
    }
    if (op.precision == Precision::f16) {
      return unsupported("products of {} in f16; the CPU has f32, bf16 and int8", matrix.name);
    }
    if (op.precision == Precision::int8 && in > kernels::kMaxNarrowK) {
      return unsupported("{} columns of {} in int8; the most are {}", in, matrix.name, kernels::kMaxNarrowK);
    }
    if (op.activation == Activation::geglu && (op.bias || op.count % 2 != 0)) {
      return unsupported("geglu over {} rows of {}{}", op.count, matrix.name, op.bias ? " with a bias" : "");
    }
    return {};
  }

  Status operator()(const Attention& op) const {
    if (op.head_width == 0 || op.head_width % kHeadStep != 0 || op.head_width > kWidestHead) {
      return unsupported("attention heads of {} columns; the CPU runs multiples of {} up to {}", op.head_width, kHeadStep, kWidestHead);
    }
    const std::size_t width = std::size_t{op.heads} * op.head_width;
    if (width != value(op.out).width) {
      return unsupported("{} attention heads of {} columns for a width of {}", op.heads, op.head_width, value(op.out).width);
    }
    if (op.q_column + width > value(op.q).width || op.k_column + width > value(op.k).width || op.v_column + width > value(op.v).width) {
      return unsupported("attention over {} columns that its values do not have", width);
    }
    return {};
  }

  Status operator()(const GatherPicks& op) const { return same_width(op.in, op.out); }
  Status operator()(const GatherMarkers& op) const { return same_width(op.in, op.out); }

  Status operator()(const ActFeatures& op) const {
    if (value(op.out).width != value(op.hidden).width + 4 || value(op.logits).width != 1) {
      return unsupported("act features of {} columns from {} and {}", value(op.out).width, value(op.hidden).width, value(op.logits).width);
    }
    return {};
  }

 private:
  [[nodiscard]] const Value& value(ValueId id) const { return graph_.values[id]; }
  [[nodiscard]] const Weight& weight(WeightId id) const { return graph_.weights[id]; }
  [[nodiscard]] bool is_vector(WeightId id, std::size_t width) const {
    return weight(id).shape.size() == 1 && weight(id).shape[0] == width;
  }

  [[nodiscard]] Status table(WeightId id, ValueId rows) const {
    const Weight& table = weight(id);
    if (table.shape.size() != 2 || table.shape[1] != value(rows).width) {
      return unsupported("rows of {} [{}] for {} columns", table.name, fmt::join(table.shape, ", "), value(rows).width);
    }
    return {};
  }

  [[nodiscard]] Status same_width(ValueId in, ValueId out) const {
    if (value(in).width != value(out).width) {
      return unsupported("rows of {} columns gathered into {}", value(in).width, value(out).width);
    }
    return {};
  }

  const Graph& graph_;
};

}  // namespace

Status check(const Graph& graph, const TensorSource& tensors) {
  for (const Op& op : graph.ops) {
    if (auto checked = std::visit(OpCheck(graph), op); !checked) {
      return checked;
    }
  }
  if (graph.values[graph.logits].width != 1 || graph.values[graph.act].width != 2) {
    return unsupported("outputs of {} and {} columns; there must be 1 logit and 2 act values", graph.values[graph.logits].width,
                       graph.values[graph.act].width);
  }
  return check_tensors(graph, tensors);
}

}  // namespace kime::cpu
