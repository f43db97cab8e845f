#include "kime/backend/cuda/blas_products.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "kime/backend/cuda/blas_verify.h"
#include "kime/backend/cuda/errors.h"
#include "kime/backend/cuda/slab.h"
#include "kime/base/arithmetic.h"

namespace kime::cuda {

namespace {

// The first candidate that passes.
Result<ProductVerdict> first_good(const ProductPlan& plan, std::size_t asked_at, std::size_t workspace_bytes, StreamHandle stream) {
  const auto candidates = plan.candidates(asked_at, workspace_bytes);
  if (!candidates) {
    return candidates.error();
  }
  std::optional<Trial> trial;  // its memory is had only where there is something to try
  for (const BlasAlgo& algo : *candidates) {
    auto good = plan.accepts(algo, workspace_bytes);
    if (good && *good) {
      if (!trial) {
        auto made = Trial::make(plan, stream, workspace_bytes);
        if (!made) {
          return std::move(made).error();
        }
        trial.emplace(*std::move(made));
      }
      good = trial->passes(algo);
    }
    if (!good) {
      return good.error();
    }
    if (*good) {
      return ProductVerdict{algo};
    }
  }
  return ProductVerdict{};
}

Status warm(const ProductPlan& plan, const BlasAlgo& algo, std::size_t workspace_bytes, StreamHandle stream) {
  auto trial = Trial::make(plan, stream, workspace_bytes);
  if (!trial) {
    return std::move(trial).error();
  }
  return trial->warm(algo);
}

}  // namespace

Result<std::unique_ptr<Products>> Products::open(std::shared_ptr<DeviceContext> context, BlasLibrary library,
                                                 std::shared_ptr<ProductVerdicts> verdicts, ProductOptions options) {
  int driver = 0;
  if (auto asked = context->check("cuDriverGetVersion", context->api().driver_get_version(&driver)); !asked) {
    return std::move(asked).error();
  }
  const DeviceFacts& facts = context->facts();
  std::string words = fmt::format("GPU {}, compute capability {}, {} multiprocessors\ndriver {}, cuBLASLt {}, arithmetic {}", facts.name,
                                  facts.capability(), facts.multiprocessors, version_text(driver), library.version, kArithmetic);
  auto blas = BlasContext::make(std::move(context), std::move(library));
  if (!blas) {
    return std::move(blas).error();
  }
  return std::unique_ptr<Products>(new Products(*std::move(blas), std::move(verdicts), std::move(options), std::move(words)));
}

Result<const VerifiedProduct*> Products::choose(const ProductShape& shape, std::span<const std::size_t> rows, StreamHandle stream) {
  Key key{shape, {rows.begin(), rows.end()}};
  key.rows.insert(key.rows.end(), options_.always.begin(), options_.always.end());
  std::ranges::sort(key.rows);
  key.rows.erase(std::unique(key.rows.begin(), key.rows.end()), key.rows.end());
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto& known = entries_[key];
    if (!known) {
      known = std::make_unique<Entry>();
    }
    entry = known.get();
  }
  const std::lock_guard lock(entry->mutex);
  if (!entry->decided) {
    auto decided = decide(key, stream);
    if (!decided) {
      return std::move(decided).error();
    }
    if (*decided) {
      entry->product.emplace(**std::move(decided));
    }
    entry->decided = true;
  }
  return entry->product ? &*entry->product : nullptr;
}

Result<std::optional<VerifiedProduct>> Products::decide(const Key& key, StreamHandle stream) const {
  if (auto bound = blas_->device()->bind(); !bound) {
    return std::move(bound).error();
  }
  auto plan = ProductPlan::make(blas_, key.shape, key.rows);
  if (!plan) {
    return std::move(plan).error();
  }
  const std::size_t asked_at = options_.always.empty() ? key.rows.back() : std::ranges::max(options_.always);
  bool tried = false;
  const auto verdict = verdicts_->get(
      text(key),
      [&](const ProductVerdict& stored) -> Result<bool> {
        return stored.algo ? plan->accepts(*stored.algo, options_.workspace_bytes) : Result<bool>(true);
      },
      [&] {
        tried = true;
        return first_good(*plan, asked_at, options_.workspace_bytes, stream);
      });
  if (!verdict) {
    return verdict.error();
  }
  if (!verdict->algo) {
    return std::optional<VerifiedProduct>();
  }
  if (!tried) {
    if (auto done = warm(*plan, *verdict->algo, options_.workspace_bytes, stream); !done) {
      return std::move(done).error();
    }
  }
  return std::optional<VerifiedProduct>(std::in_place, *std::move(plan), *verdict->algo);
}

std::string Products::text(const Key& key) const {
  return fmt::format("{}\nworkspace {}, always {}\nshape {}\nrows {}", class_, options_.workspace_bytes, fmt::join(options_.always, " "),
                     key.shape.text(), fmt::join(key.rows, " "));
}

Status Products::run(const VerifiedProduct& product, StreamHandle stream, const ProductOperands& operands, std::size_t rows,
                     const Workspace& workspace) const {
  const auto refuse = [&](std::string_view why) {
    return Error(ErrorKind::device, fmt::format("a product of {} with {} rows: {}", product.plan().shape().text(), rows, why));
  };
  if (!product.plan().has(rows)) {
    return refuse("it was not chosen for so many");
  }
  if ((operands.a | operands.w | operands.c) % kProductAlignment != 0 || workspace.address % kSlabAlignment != 0) {
    return refuse("an address is not aligned");
  }
  if (workspace.bytes < options_.workspace_bytes) {
    return refuse(fmt::format("its workspace has {} bytes, not {}", workspace.bytes, options_.workspace_bytes));
  }
  if (auto bound = blas_->device()->bind(); !bound) {
    return bound;
  }
  const Workspace same{workspace.address, options_.workspace_bytes};  // as verified
  const BlasStatus status = product.plan().enqueue(product.algo(), stream, operands, rows, same);
  return blas_check(blas_->api(), "cublasLtMatmul", status);
}

}  // namespace kime::cuda
