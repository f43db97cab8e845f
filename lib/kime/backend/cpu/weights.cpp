#include "kime/backend/cpu/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "kime/backend/cpu/until_failure.h"
#include "kime/base/memory.h"

namespace kime::cpu {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kFactorExponent = 60;                        // of the largest factor of a channel
constexpr std::size_t kTablePiece = std::size_t{1} << 20;  // bytes of a table that are read at a time

static_assert(static_cast<int>(kernels::Element::f32) == static_cast<int>(DType::f32));
static_assert(static_cast<int>(kernels::Element::f16) == static_cast<int>(DType::f16));
static_assert(static_cast<int>(kernels::Element::bf16) == static_cast<int>(DType::bf16));

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

// Gives each weight its place, op by op, so that what is used together lies together.
class LayoutMaker {
 public:
  LayoutMaker(const Graph& graph, const TensorSource& tensors, const kernels::Table& kernels, WeightLayout& layout)
      : graph_(graph), tensors_(tensors), kernels_(kernels), layout_(layout) {
    layout_.tables_.assign(graph.weights.size(), WeightLayout::kNone);
    layout_.vectors_.assign(graph.weights.size(), WeightLayout::kNone);
    for (const Op& op : graph_.ops) {
      std::visit(*this, op);
    }
  }

  void operator()(const Embed& op) {
    if (layout_.tables_[op.table] == WeightLayout::kNone) {
      layout_.tables_[op.table] = take(elements(graph_.weights[op.table].shape) * size_of(tensors_.dtype(op.table)));
    }
  }
  void operator()(const LayerNorm& op) {
    vector(op.weight);
    if (op.bias) {
      vector(*op.bias);
    }
  }
  void operator()(const Gemm& op) {
    if (op.bias) {
      vector(*op.bias);
    }
    if (std::ranges::any_of(layout_.packed_, [&](const PackedRows& rows) { return rows.serves(op); })) {
      return;
    }
    PackedRows rows;
    rows.weight = op.weight;
    rows.first = op.first;
    rows.count = op.count;
    rows.geglu = op.activation == Activation::geglu;
    rows.precision = op.precision;
    rows.narrow = narrow_of(kernels_, op.precision);
    rows.n = rows.geglu ? kernels::panels(op.count) * kernels::kPanel : op.count;
    rows.k = graph_.values[op.in].width;
    rows.offset =
        take(rows.narrow == nullptr ? kernels::packed_floats(rows.n, rows.k) * sizeof(float) : rows.narrow->packed_bytes(rows.n, rows.k));
    if (op.precision == Precision::int8) {
      const std::size_t columns = (rows.n + 15) / 16 * 16;
      rows.scales_offset = take(columns * sizeof(float));
      rows.start_offset = take(columns * sizeof(std::int32_t));
      rows.channels_offset = take(2 * rows.k * sizeof(float));
    }
    layout_.packed_.push_back(rows);
  }
  void operator()(const AddType& op) { vector(op.table); }
  template <class Other>
  void operator()(const Other& /*op*/) {}  // has no weights

 private:
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = layout_.bytes_;
    layout_.bytes_ += aligned(bytes);
    return offset;
  }
  void vector(WeightId weight) {
    if (layout_.vectors_[weight] == WeightLayout::kNone) {
      layout_.vectors_[weight] = take(elements(graph_.weights[weight].shape) * sizeof(float));
    }
  }

  const Graph& graph_;
  const TensorSource& tensors_;
  const kernels::Table& kernels_;
  WeightLayout& layout_;
};

// One worker's share of the loading: a panel of packed columns, some bytes of a table, or a vector.
struct LoadPiece {
  enum class Kind { panel, table, vector, column_max } kind;
  std::size_t index;  ///< Of WeightLayout::packed, or a weight.
  std::size_t first;  ///< The panel, or the first byte.
};

class Loader {
 public:
  Loader(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, const kernels::Table& kernels, std::byte* memory)
      : tensors_(tensors), graph_(graph), layout_(layout), kernels_(kernels), memory_(memory) {
    for (std::size_t weight = 0; weight < graph.weights.size(); ++weight) {
      if (layout.tables_[weight] != WeightLayout::kNone) {
        for (std::size_t byte = 0; byte < bytes_of(weight); byte += kTablePiece) {
          pieces_.push_back({LoadPiece::Kind::table, weight, byte});
        }
      }
      if (layout.vectors_[weight] != WeightLayout::kNone) {
        pieces_.push_back({LoadPiece::Kind::vector, weight, 0});
        staging_bytes_ = std::max(staging_bytes_, bytes_of(weight));
      }
    }
    for (std::size_t i = 0; i < layout.packed_.size(); ++i) {
      const PackedRows& rows = layout.packed_[i];
      for (std::size_t panel = 0; panel < kernels::panels(rows.n); ++panel) {
        pieces_.push_back({LoadPiece::Kind::panel, i, panel});
        if (rows.precision == Precision::int8) {
          first_pieces_.push_back({LoadPiece::Kind::column_max, i, panel});
        }
      }
      staging_bytes_ = std::max(staging_bytes_, raw_bytes(rows) + (rows.narrow == nullptr ? 0 : pack_scratch(*rows.narrow, rows.k)));
    }
    staging_bytes_ = aligned(staging_bytes_);
  }

  Status load(const Crew& crew, std::size_t threads) {
    auto staging = Pages::make(staging_bytes_ * threads);
    if (!staging) {
      return std::move(staging).error();
    }
    if (auto failed = load_pieces(first_pieces_, crew, threads, staging->data())) {
      return *std::move(failed);
    }
    for (const PackedRows& rows : layout_.packed_) {
      if (rows.precision == Precision::int8) {
        choose_factors(rows);
      }
    }
    if (auto failed = load_pieces(pieces_, crew, threads, staging->data())) {
      return *std::move(failed);
    }
    return {};
  }

 private:
  [[nodiscard]] std::size_t bytes_of(std::size_t weight) const {
    return elements(graph_.weights[weight].shape) * size_of(tensors_.dtype(weight));
  }

  std::optional<Error> load_pieces(const std::vector<LoadPiece>& pieces, const Crew& crew, std::size_t threads, std::byte* staging) {
    return until_failure<Error>(crew, threads, pieces.size(), [&](std::size_t piece, std::size_t worker) -> std::optional<Error> {
      auto loaded = load(pieces[piece], staging + worker * staging_bytes_);
      return loaded ? std::nullopt : std::optional(std::move(loaded).error());
    });
  }

  [[nodiscard]] float* factors(const PackedRows& rows) const { return reinterpret_cast<float*>(memory_ + rows.channels_offset); }

  // From the largest magnitude of each column of a weight to the factor of its channel: the power of two at or below it, so that all
  // columns are about alike in size, and a channel that is large for small weights, or small for large ones, is neither. Powers of two,
  // since these add no rounding of their own.
  void choose_factors(const PackedRows& rows) const {
    float* activations = factors(rows);
    float* weights = activations + rows.k;
    for (std::size_t i = 0; i < rows.k; ++i) {
      int exponent = 0;
      if (activations[i] > 0 && std::isfinite(activations[i])) {
        static_cast<void>(std::frexp(activations[i], &exponent));
        exponent = std::clamp(exponent - 1, -kFactorExponent, kFactorExponent);
      }
      activations[i] = std::ldexp(1.0F, exponent);
      weights[i] = std::ldexp(1.0F, -exponent);
    }
  }

  // Of a panel's rows as the checkpoint has them.
  [[nodiscard]] std::size_t raw_bytes(const PackedRows& rows) const {
    return aligned(kernels::kPanel * rows.k * size_of(tensors_.dtype(rows.weight)));
  }

  Status load(const LoadPiece& piece, std::byte* staging) {
    switch (piece.kind) {
      case LoadPiece::Kind::table: {
        const std::size_t size = std::min(kTablePiece, bytes_of(piece.index) - piece.first);
        return tensors_.read(piece.index, piece.first, {memory_ + layout_.tables_[piece.index] + piece.first, size});
      }
      case LoadPiece::Kind::vector:
        return load_vector(piece.index, staging);
      case LoadPiece::Kind::panel:
      case LoadPiece::Kind::column_max:
        break;
    }
    const PackedRows& rows = layout_.packed_[piece.index];
    if (piece.kind == LoadPiece::Kind::column_max) {
      const std::size_t first = piece.first * kernels::kPanel;
      return first < rows.count ? find_column_max(rows, rows.first + first, std::min(kernels::kPanel, rows.count - first), staging)
                                : Status();
    }
    if (!rows.geglu) {
      const std::size_t column = piece.first * kernels::kPanel;
      return load_columns(rows, rows.first + column, std::min(kernels::kPanel, rows.count - column), column, staging);
    }
    const std::size_t half = rows.count / 2;
    const std::size_t from = piece.first * kernels::kGegluHalf;
    const std::size_t count = std::min(kernels::kGegluHalf, half - from);
    const std::size_t column = piece.first * kernels::kPanel;
    if (auto loaded = load_columns(rows, rows.first + from, count, column, staging); !loaded) {
      return loaded;
    }
    return load_columns(rows, rows.first + half + from, count, column + kernels::kGegluHalf, staging);
  }

  // Rows [row, row + count) of the weight, as the checkpoint has them.
  Status read_rows(const PackedRows& rows, std::size_t row, std::size_t count, std::byte* staging) const {
    const std::size_t row_bytes = rows.k * size_of(tensors_.dtype(rows.weight));
    return tensors_.read(rows.weight, row * row_bytes, {staging, count * row_bytes});
  }

  Status find_column_max(const PackedRows& rows, std::size_t row, std::size_t count, std::byte* staging) {
    if (auto read = read_rows(rows, row, count, staging); !read) {
      return read;
    }
    auto* largest = reinterpret_cast<float*>(staging + raw_bytes(rows));
    std::fill_n(largest, rows.k, 0.0F);
    kernels_.column_max(staging, static_cast<kernels::Element>(tensors_.dtype(rows.weight)), count, rows.k, largest);
    const std::lock_guard lock(mutex_);
    std::transform(largest, largest + rows.k, factors(rows), factors(rows), [](float a, float b) { return std::max(a, b); });
    return {};
  }

  // Rows [row, row + count) of the weight become packed columns from `column` on.
  Status load_columns(const PackedRows& rows, std::size_t row, std::size_t count, std::size_t column, std::byte* staging) {
    const DType dtype = tensors_.dtype(rows.weight);
    if (auto read = read_rows(rows, row, count, staging); !read) {
      return read;
    }
    if (rows.narrow != nullptr) {
      const kernels::NarrowColumns to{.k = rows.k,
                                      .channels = rows.precision == Precision::int8 ? factors(rows) + rows.k : nullptr,
                                      .packed = memory_ + rows.offset,
                                      .n = rows.n,
                                      .column = column,
                                      .scales = reinterpret_cast<float*>(memory_ + rows.scales_offset),
                                      .start = reinterpret_cast<std::int32_t*>(memory_ + rows.start_offset)};
      kernels_.pack_narrow(*rows.narrow, staging, static_cast<kernels::Element>(dtype), count, to, staging + raw_bytes(rows));
      return {};
    }
    auto* packed = reinterpret_cast<float*>(memory_ + rows.offset);
    kernels_.pack(staging, static_cast<kernels::Element>(dtype), count, rows.k, packed, rows.n, column);
    return {};
  }

  Status load_vector(std::size_t weight, std::byte* staging) {
    if (auto read = tensors_.read(weight, 0, {staging, bytes_of(weight)}); !read) {
      return read;
    }
    constexpr std::uint32_t kRow = 0;  // a table of one row, converted
    const std::size_t width = elements(graph_.weights[weight].shape);
    auto* out = reinterpret_cast<float*>(memory_ + layout_.vectors_[weight]);
    kernels_.embed(staging, static_cast<kernels::Element>(tensors_.dtype(weight)), &kRow, 1, width, out, width);
    return {};
  }

  const TensorSource& tensors_;
  const Graph& graph_;
  const WeightLayout& layout_;
  const kernels::Table& kernels_;
  std::byte* memory_;
  std::vector<LoadPiece> first_pieces_;  ///< To be done before the others.
  std::vector<LoadPiece> pieces_;
  std::size_t staging_bytes_ = 0;
  std::mutex mutex_;  ///< Of the factors, while they are the columns' largest.
};

const kernels::Narrow* narrow_of(const kernels::Table& kernels, Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return kernels.bf16;
    case Precision::int8:
      return kernels.int8;
    case Precision::f16:  // no CPU graph has it
    case Precision::f32:
      break;
  }
  return nullptr;
}

WeightLayout::WeightLayout(const Graph& graph, const TensorSource& tensors, const kernels::Table& kernels) {
  LayoutMaker(graph, tensors, kernels, *this);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    elements_.push_back(static_cast<kernels::Element>(tensors.dtype(i)));
  }
}

std::string WeightLayout::description() const {
  std::string text = fmt::format("{} bytes", bytes_);
  const auto out = std::back_inserter(text);
  for (const PackedRows& rows : packed_) {
    fmt::format_to(out, "; rows {}+{} of {}, {}{}, {}, {} by {} at {}", rows.first, rows.count, rows.weight, name_of(rows.precision),
                   rows.geglu ? " geglu" : "", rows.narrow == nullptr ? "floats" : rows.narrow->name, rows.n, rows.k, rows.offset);
    if (rows.precision == Precision::int8) {
      fmt::format_to(out, " {} {} {}", rows.scales_offset, rows.start_offset, rows.channels_offset);
    }
  }
  for (const auto& [name, offsets] : {std::pair("table", &tables_), std::pair("vector", &vectors_)}) {
    for (std::size_t weight = 0; weight < offsets->size(); ++weight) {
      if ((*offsets)[weight] != kNone) {
        fmt::format_to(out, "; {} {} at {}", name, weight, (*offsets)[weight]);
      }
    }
  }
  return text;
}

Status load_weights(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, const kernels::Table& table,
                    const Crew& crew, std::size_t threads, std::byte* memory) {
  return Loader(tensors, graph, layout, table, memory).load(crew, threads);
}

const PackedRows& Weights::packed(const Gemm& gemm) const {
  return *std::ranges::find_if(layout_.packed_, [&](const PackedRows& rows) { return rows.serves(gemm); });
}

}  // namespace kime::cpu
