#include "kime/backend/cuda/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/cuda/params_gemm.h"
#include "kime/backend/cuda/slab.h"

namespace kime::cuda {

namespace {

std::size_t vector_bytes(std::span<const std::size_t> shape) {
  return padded_width(elements(shape), DType::f16) * sizeof(float);  // the widest filling up that a product's outputs have
}

}  // namespace

std::optional<std::size_t> WeightMatrix::source(std::size_t row) const {
  if (!geglu) {
    return row < count ? std::optional(first + row) : std::nullopt;
  }
  const std::size_t from = geglu_source(row, count / 2);
  return from < count ? std::optional(first + from) : std::nullopt;
}

// Gives each op's weights their places.
class WeightLayoutMaker {
 public:
  WeightLayoutMaker(const Graph& graph, const TensorSource& tensors) : graph_(graph) {
    layout_.vectors_.assign(graph.weights.size(), WeightLayout::kNone);
    layout_.tables_ = layout_.vectors_;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      layout_.types_.push_back(tensors.dtype(i));
    }
  }

  Result<WeightLayout> make() && {
    for (const Op& op : graph_.ops) {
      std::visit(*this, op);
    }
    if (error_) {
      return *std::move(error_);
    }
    return std::move(layout_);
  }

  void operator()(const Embed& op) {
    if (layout_.tables_[op.table] == WeightLayout::kNone) {
      layout_.tables_[op.table] = take(elements(graph_.weights[op.table].shape) * size_of(layout_.types_[op.table]));
    }
  }
  void operator()(const LayerNorm& op) {
    vector(op.weight);
    if (op.bias) {
      vector(*op.bias);
    }
  }
  void operator()(const Gemm& op) {
    const auto type = element_of(op.precision);
    if (!type) {
      error_ = Error(ErrorKind::unsupported, fmt::format("precision {} on CUDA devices", name_of(op.precision)));
      return;
    }
    if (op.bias) {
      vector(*op.bias);
    }
    if (std::ranges::any_of(layout_.matrices_, [&](const WeightMatrix& matrix) { return matrix.serves(op); })) {
      return;
    }
    WeightMatrix matrix{.weight = op.weight, .first = op.first, .count = op.count, .type = *type};
    matrix.geglu = op.activation == Activation::geglu;
    matrix.k = graph_.values[op.in].width;
    matrix.ld = is_linear(op) ? matrix.k : padded_width(matrix.k, *type);
    if (matrix.geglu) {
      matrix.rows = geglu_rows(padded_width(op.count / 2, *type));
    } else {
      matrix.rows = is_linear(op) || op.accumulate ? op.count : padded_width(op.count, *type);
    }
    if (matrix.ld * size_of(*type) > WeightSink::kPiece) {
      error_ = Error(ErrorKind::unsupported, fmt::format("a weight with rows of {} elements on CUDA devices", matrix.k));
      return;
    }
    matrix.offset = take(matrix.rows * matrix.ld * size_of(*type));
    layout_.matrices_.push_back(matrix);
  }
  void operator()(const AddType& op) { vector(op.table); }
  template <class Other>
  void operator()(const Other& /*op*/) {}  // has no weights

 private:
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = layout_.bytes_;
    layout_.bytes_ += (bytes + kSlabAlignment - 1) / kSlabAlignment * kSlabAlignment;
    return offset;
  }
  void vector(WeightId weight) {
    if (layout_.vectors_[weight] == WeightLayout::kNone) {
      layout_.vectors_[weight] = take(vector_bytes(graph_.weights[weight].shape));
    }
  }

  const Graph& graph_;
  WeightLayout layout_;
  std::optional<Error> error_;
};

Result<WeightLayout> WeightLayout::make(const Graph& graph, const TensorSource& tensors) {
  return WeightLayoutMaker(graph, tensors).make();
}

const WeightMatrix& WeightLayout::matrix(const Gemm& op) const {
  return *std::ranges::find_if(matrices_, [&](const WeightMatrix& matrix) { return matrix.serves(op); });
}

namespace {

// Converts weights into the sink's pieces.
class WeightLoader {
 public:
  WeightLoader(const TensorSource& tensors, WeightSink& sink) : tensors_(tensors), sink_(sink) {}

  // A weight as it is, or as `type`; then zeros up to `bytes`.
  Status whole(WeightId weight, DType type, std::size_t offset, std::size_t bytes) {
    const std::size_t size = elements(tensors_.shape(weight)) * size_of(type);
    for (std::size_t at = 0; at < bytes; at += WeightSink::kPiece) {
      auto piece = sink_.room();
      if (!piece) {
        return std::move(piece).error();
      }
      const std::size_t length = std::min(WeightSink::kPiece, bytes - at);
      const std::size_t real = at < size ? std::min(length, size - at) : 0;
      if (auto read = read_elements(weight, at / size_of(type), real / size_of(type), type, *piece); !read) {
        return read;
      }
      std::memset(*piece + real, 0, length - real);
      if (auto sent = sink_.send(offset + at, length); !sent) {
        return sent;
      }
    }
    return {};
  }

  Status matrix(const WeightMatrix& matrix) {
    const std::size_t row_bytes = matrix.ld * size_of(matrix.type);
    const std::size_t rows_each = std::max<std::size_t>(WeightSink::kPiece / row_bytes, 1);
    for (std::size_t row0 = 0; row0 < matrix.rows; row0 += rows_each) {
      auto piece = sink_.room();
      if (!piece) {
        return std::move(piece).error();
      }
      const std::size_t rows = std::min(rows_each, matrix.rows - row0);
      std::memset(*piece, 0, rows * row_bytes);
      for (std::size_t row = 0; row < rows;) {
        const std::size_t together = run_of(matrix, row0 + row, rows - row);
        if (const auto source = matrix.source(row0 + row)) {
          if (auto read = read_rows(matrix, *source, together, *piece + row * row_bytes); !read) {
            return read;
          }
        }
        row += together;
      }
      if (auto sent = sink_.send(matrix.offset + row0 * row_bytes, rows * row_bytes); !sent) {
        return sent;
      }
    }
    return {};
  }

 private:
  // How many rows from `row` on, at most `most`, stand together in the checkpoint too.
  static std::size_t run_of(const WeightMatrix& matrix, std::size_t row, std::size_t most) {
    const auto first = matrix.source(row);
    std::size_t run = 1;
    while (run < most && first && matrix.source(row + run) == *first + run) {
      ++run;
    }
    return run;
  }

  Status read_rows(const WeightMatrix& matrix, std::size_t source, std::size_t rows, std::byte* to) {
    if (matrix.k == matrix.ld) {
      return read_elements(matrix.weight, source * matrix.k, rows * matrix.k, matrix.type, to);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      auto read =
          read_elements(matrix.weight, (source + row) * matrix.k, matrix.k, matrix.type, to + row * matrix.ld * size_of(matrix.type));
      if (!read) {
        return read;
      }
    }
    return {};
  }

  Status read_elements(WeightId weight, std::size_t first, std::size_t count, DType type, std::byte* to) {
    const DType from = tensors_.dtype(weight);
    if (from == type) {
      return tensors_.read(weight, first * size_of(from), {to, count * size_of(from)});
    }
    raw_.resize(count * size_of(from));
    if (auto read = tensors_.read(weight, first * size_of(from), raw_); !read) {
      return read;
    }
    convert_elements(raw_, from, to, type);
    return {};
  }

  const TensorSource& tensors_;
  WeightSink& sink_;
  std::vector<std::byte> raw_;
};

}  // namespace

Status load_weights(const TensorSource& tensors, const Graph& graph, const WeightLayout& layout, WeightSink& sink) {
  WeightLoader loader(tensors, sink);
  for (WeightId weight = 0; weight < graph.weights.size(); ++weight) {
    const auto& shape = graph.weights[weight].shape;
    if (const std::size_t offset = layout.table(weight); offset != WeightLayout::kNone) {
      const DType type = layout.table_type(weight);
      if (auto loaded = loader.whole(weight, type, offset, elements(shape) * size_of(type)); !loaded) {
        return loaded;
      }
    }
    if (const std::size_t offset = layout.vector(weight); offset != WeightLayout::kNone) {
      if (auto loaded = loader.whole(weight, DType::f32, offset, vector_bytes(shape)); !loaded) {
        return loaded;
      }
    }
  }
  for (const WeightMatrix& matrix : layout.matrices()) {
    if (auto loaded = loader.matrix(matrix); !loaded) {
      return loaded;
    }
  }
  return {};
}

}  // namespace kime::cuda
