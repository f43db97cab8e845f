#include "kime/backend/cuda/library_products.h"

#include <fmt/format.h>

#include <algorithm>

namespace kime::cuda {

Status LibraryProducts::open() {
  if (!stream_) {
    auto stream = Stream::make(0, context_);
    if (!stream) {
      return std::move(stream).error();
    }
    stream_ = *std::move(stream);
  }
  if (!products_) {
    auto products = Products::open(context_, *config_.blas, config_.verdicts, config_.options);
    if (!products) {
      return std::move(products).error();
    }
    products_ = *std::move(products);
  }
  return {};
}

Result<const VerifiedProduct*> LibraryProducts::choose(const ProductLaunch& product) {
  if (!enabled()) {
    return static_cast<const VerifiedProduct*>(nullptr);
  }
  if (std::ranges::find(config_.rows, product.rows) == config_.rows.end()) {
    return Error(ErrorKind::unsupported, fmt::format("a bucket of {} tokens, for which no products are verified", product.rows));
  }
  const std::lock_guard lock(mutex_);
  if (auto opened = open(); !opened) {
    return std::move(opened).error();
  }
  const ProductShape shape{product.type == DType::f16 ? ProductType::f16 : ProductType::bf16,
                           product.added ? ProductOut::added : ProductOut::narrow,
                           product.n,
                           product.k,
                           product.ld_a,
                           product.ld_c};
  return products_->choose(shape, config_.rows, stream_->handle());
}

Status LibraryProducts::run(const VerifiedProduct& chosen, StreamHandle stream, const ProductOperands& operands, std::size_t rows,
                            DeviceAddress workspace) const {
  return products_->run(chosen, stream, operands, rows, {workspace, workspace_bytes()});
}

}  // namespace kime::cuda
