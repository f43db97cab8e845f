#include "kime/backend/cuda/blas_plan.h"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace kime::cuda {

namespace {

// How many algorithms the library is asked for. Beyond these they would hardly be faster than kime's own kernels.
constexpr std::size_t kCandidates = 16;

BlasType narrow_type(ProductType type) {
  return type == ProductType::f16 ? BlasType::f16 : BlasType::bf16;
}

// What keeps a shape from being one; "" if nothing does.
std::string trouble_with(const ProductShape& shape) {
  if (shape.n == 0 || shape.k == 0 || shape.ld_a < shape.k || shape.ld_c < shape.n) {
    return "it is empty, or its rows overlap";
  }
  constexpr auto aligned = [](std::size_t elements, std::size_t each) { return elements * each % kProductAlignment == 0; };
  if (!aligned(shape.k, ProductShape::kNarrowBytes) || !aligned(shape.ld_a, ProductShape::kNarrowBytes) ||
      !aligned(shape.ld_c, shape.out_bytes())) {
    return fmt::format("its rows are no multiples of {} bytes", kProductAlignment);
  }
  return "";
}

template <class Value>
Status set(const BlasApi& api, BlasPreferenceHandle preference, BlasPreferenceAttribute attribute, Value value) {
  return blas_check(api, "cublasLtMatmulPreferenceSetAttribute", api.preference_set(preference, attribute, &value, sizeof(value)));
}

// No algorithm that wants more than this, or that sums k in parts.
Status restrict(const BlasApi& api, BlasPreferenceHandle preference, std::size_t workspace_bytes) {
  using enum BlasPreferenceAttribute;
  auto done = set(api, preference, max_workspace_bytes, std::uint64_t{workspace_bytes});
  if (done) {
    done = set(api, preference, reduction_scheme_mask, kNoReduction);
  }
  for (const auto attribute : {min_alignment_a, min_alignment_b, min_alignment_c, min_alignment_d}) {
    if (done) {
      done = set(api, preference, attribute, static_cast<std::uint32_t>(kProductAlignment));
    }
  }
  return done;
}

template <class Value>
Result<Value> config_of(const BlasApi& api, const BlasAlgo& algo, BlasAlgoAttribute attribute) {
  Value value{};
  std::size_t written = 0;
  const BlasStatus status = api.algo_config_get(&algo, attribute, &value, sizeof(value), &written);
  if (auto asked = blas_check(api, "cublasLtMatmulAlgoConfigGetAttribute", status); !asked) {
    return std::move(asked).error();
  }
  return value;
}

// Whether an algorithm sums each output in one piece, as far as it says.
Result<bool> sums_in_one(const BlasApi& api, const BlasAlgo& algo) {
  const auto parts = config_of<std::int32_t>(api, algo, BlasAlgoAttribute::split_k);
  if (!parts) {
    return parts.error();
  }
  const auto scheme = config_of<std::uint32_t>(api, algo, BlasAlgoAttribute::reduction_scheme);
  if (!scheme) {
    return scheme.error();
  }
  return (*parts == 0 || *parts == 1) && *scheme == kNoReduction;
}

void* pointer(DeviceAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the library's own way to say it
}

}  // namespace

std::string ProductShape::text() const {
  return fmt::format("{} {}x{}, rows of {} and {}, {}", type == ProductType::f16 ? "f16" : "bf16", n, k, ld_a, ld_c,
                     out == ProductOut::narrow ? "narrow" : "added");
}

Result<std::shared_ptr<BlasContext>> BlasContext::make(std::shared_ptr<DeviceContext> context, BlasLibrary library) {
  if (auto bound = context->bind(); !bound) {
    return std::move(bound).error();
  }
  BlasHandle handle = nullptr;
  if (auto made = blas_check(library.api, "cublasLtCreate", library.api.create(&handle)); !made) {
    return std::move(made).error();
  }
  return std::make_shared<BlasContext>(std::move(context), std::move(library), handle);
}

BlasContext::~BlasContext() {
  if (context_->bind()) {  // where it has failed what the handle has there goes with it
    static_cast<void>(library_.api.destroy(handle_));
  }
}

Result<ProductPlan> ProductPlan::make(std::shared_ptr<BlasContext> blas, const ProductShape& shape, std::span<const std::size_t> rows) {
  const std::string trouble = rows.empty() ? "no number of rows is given" : trouble_with(shape);
  if (!trouble.empty()) {
    return Error(ErrorKind::unsupported, fmt::format("a product of {}: {}", shape.text(), trouble));
  }
  ProductPlan plan(std::move(blas), shape);
  if (auto described = plan.describe(); !described) {
    return std::move(described).error();
  }
  for (const std::size_t m : rows) {
    if (m == 0 || m > std::numeric_limits<std::int32_t>::max()) {
      return Error(ErrorKind::unsupported, fmt::format("a product of {} with {} rows", shape.text(), m));
    }
    if (plan.has(m)) {
      continue;
    }
    auto a = plan.layout(narrow_type(shape.type), shape.k, m, shape.ld_a);
    if (!a) {
      return std::move(a).error();
    }
    auto c = plan.layout(shape.out == ProductOut::added ? BlasType::f32 : narrow_type(shape.type), shape.n, m, shape.ld_c);
    if (!c) {
      return std::move(c).error();
    }
    plan.layouts_.emplace(m, Layouts{*std::move(a), *std::move(c)});
  }
  return plan;
}

// The library's matrices have their columns in memory one after another. So it is told of c^T = w a^T, where w is the transpose of what it
// sees.
Status ProductPlan::describe() {
  const BlasApi& api = blas_->api();
  BlasDescHandle desc = nullptr;
  if (auto made = blas_check(api, "cublasLtMatmulDescCreate", api.desc_create(&desc, BlasCompute::f32, BlasType::f32)); !made) {
    return made;
  }
  desc_ = {desc, api.desc_destroy};
  for (const auto& [attribute, operation] : {std::pair(BlasDescAttribute::transpose_a, BlasOperation::transpose),
                                             std::pair(BlasDescAttribute::transpose_b, BlasOperation::none)}) {
    const BlasStatus status = api.desc_set(desc, attribute, &operation, sizeof(operation));
    if (auto done = blas_check(api, "cublasLtMatmulDescSetAttribute", status); !done) {
      return done;
    }
  }
  auto w = layout(narrow_type(shape_.type), shape_.k, shape_.n, shape_.k);
  if (!w) {
    return std::move(w).error();
  }
  w_ = *std::move(w);
  return {};
}

Result<ProductPlan::Layout> ProductPlan::layout(BlasType type, std::uint64_t rows, std::uint64_t columns, std::uint32_t leading) const {
  const BlasApi& api = blas_->api();
  BlasLayoutHandle made = nullptr;
  const BlasStatus status = api.layout_create(&made, type, rows, columns, std::int64_t{leading});
  if (auto done = blas_check(api, "cublasLtMatrixLayoutCreate", status); !done) {
    return std::move(done).error();
  }
  return Layout(made, api.layout_destroy);
}

std::vector<std::size_t> ProductPlan::rows() const {
  std::vector<std::size_t> all;
  for (const auto& [m, layouts] : layouts_) {
    all.push_back(m);
  }
  return all;
}

Result<std::vector<BlasAlgo>> ProductPlan::candidates(std::size_t rows, std::size_t workspace_bytes) const {
  const BlasApi& api = blas_->api();
  BlasPreferenceHandle made = nullptr;
  if (auto done = blas_check(api, "cublasLtMatmulPreferenceCreate", api.preference_create(&made)); !done) {
    return std::move(done).error();
  }
  const BlasObject<BlasPreferenceHandle> preference(made, api.preference_destroy);
  if (auto done = restrict(api, made, workspace_bytes); !done) {
    return std::move(done).error();
  }
  const Layouts& at = layouts_.at(rows);
  std::array<BlasHeuristic, kCandidates> found{};
  int count = 0;
  const BlasStatus status = api.algo_get_heuristic(blas_->handle(), desc_.get(), w_.get(), at.a.get(), at.c.get(), at.c.get(), made,
                                                   static_cast<int>(found.size()), found.data(), &count);
  if (status != BlasStatus::success && status != BlasStatus::not_supported) {
    return blas_error(api, "cublasLtMatmulAlgoGetHeuristic", status);
  }
  std::vector<BlasAlgo> all;
  for (const auto& each : std::span(found).first(status == BlasStatus::success ? static_cast<std::size_t>(count) : 0)) {
    if (each.state != BlasStatus::success || each.workspace_bytes > workspace_bytes) {
      continue;
    }
    const auto whole = sums_in_one(api, each.algo);
    if (!whole) {
      return whole.error();
    }
    if (*whole) {
      all.push_back(each.algo);
    }
  }
  return all;
}

Result<bool> ProductPlan::accepts(const BlasAlgo& algo, std::size_t workspace_bytes) const {
  const BlasApi& api = blas_->api();
  for (const auto& [m, at] : layouts_) {
    BlasHeuristic result;
    const BlasStatus status = api.algo_check(blas_->handle(), desc_.get(), w_.get(), at.a.get(), at.c.get(), at.c.get(), &algo, &result);
    if (status != BlasStatus::success && !is_refusal(status)) {
      return blas_error(api, "cublasLtMatmulAlgoCheck", status);
    }
    if (status != BlasStatus::success || result.state != BlasStatus::success || result.workspace_bytes > workspace_bytes) {
      return false;
    }
  }
  return true;
}

BlasStatus ProductPlan::enqueue(const BlasAlgo& algo, StreamHandle stream, const ProductOperands& operands, std::size_t rows,
                                const Workspace& workspace) const {
  const Layouts& at = layouts_.at(rows);
  const float alpha = 1;
  const float beta = shape_.out == ProductOut::added ? 1 : 0;
  void* c = pointer(operands.c);
  return blas_->api().matmul(blas_->handle(), desc_.get(), &alpha, pointer(operands.w), w_.get(), pointer(operands.a), at.a.get(), &beta, c,
                             at.c.get(), c, at.c.get(), &algo, pointer(workspace.address), workspace.bytes, stream);
}

}  // namespace kime::cuda
