#include "kime/backend/cuda/blas_verify.h"

#include <algorithm>
#include <cstring>

namespace kime::cuda {

namespace {

// What is copied to the host at a time: a megabyte or so.
constexpr std::size_t kRowsAtATime = 128;

// Which of the probe's rows stands first, for each number of rows in several placings.
constexpr std::size_t kPlacings = 3;
constexpr std::size_t kPlacingStep = 11;
constexpr std::size_t first_row(std::size_t index, std::size_t placing) {
  return (index * 7 + placing * kPlacingStep) % Probe::kRows;
}

// At each place, two of the three rows that stand there in turn have outliers, which show a sum's order.
constexpr bool all_places_are_tried() {
  for (std::size_t row = 0; row < Probe::kRows; ++row) {
    std::size_t outliers = 0;
    for (std::size_t placing = 0; placing < kPlacings; ++placing) {
      outliers += Probe::has_outliers((row + first_row(0, placing)) % Probe::kRows) ? 1 : 0;
    }
    if (outliers < 2) {
      return false;
    }
  }
  return true;
}
static_assert(all_places_are_tried());

}  // namespace

Result<Trial> Trial::make(const ProductPlan& plan, StreamHandle stream, std::size_t workspace_bytes) {
  const ProductShape& shape = plan.shape();
  const std::size_t most = plan.rows().back();
  const std::size_t row = std::size_t{shape.ld_a} * ProductShape::kNarrowBytes;
  const std::size_t c_row = shape.ld_c * shape.out_bytes();
  const std::size_t bytes[kParts] = {(most + Probe::kRows) * row, std::size_t{shape.n} * shape.k * ProductShape::kNarrowBytes, most * c_row,
                                     shape.out == ProductOut::added ? 2 * Probe::kRows * c_row : 0, workspace_bytes};
  std::vector<Slab> slabs;
  for (const std::size_t size : bytes) {
    auto slab = Slab::on_device(plan.blas().device(), size, kSlabAlignment);
    if (!slab) {
      return std::move(slab).error();
    }
    slabs.push_back(*std::move(slab));
  }
  Trial trial(plan, stream, std::move(slabs), workspace_bytes);
  if (auto done = trial.upload(); !done) {
    return std::move(done).error();
  }
  return trial;
}

// Fills what follows the first `have` bytes with copies of them.
Status Trial::repeat(DeviceAddress address, std::size_t have, std::size_t want) {
  const DriverApi& api = plan_->blas().device()->api();
  while (have < want) {
    const std::size_t more = std::min(have, want - have);
    if (auto done = check("cuMemcpyAsync", api.memcpy_async(address + have, address, more, stream_)); !done) {
      return done;
    }
    have += more;
  }
  return {};
}

Status Trial::upload() {
  const DriverApi& api = plan_->blas().device()->api();
  const auto put = [&](DeviceAddress to, const auto& from) {
    return check("cuMemcpyHtoDAsync", api.memcpy_htod_async(to, from.data(), from.size() * sizeof(from[0]), stream_));
  };
  auto done = put(at(kA), probe_.a());
  if (done) {
    const std::size_t row = std::size_t{plan_->shape().ld_a} * ProductShape::kNarrowBytes;
    done = repeat(at(kA), Probe::kRows * row, (plan_->rows().back() + Probe::kRows) * row);
  }
  if (done) {
    done = put(at(kW), probe_.w());
  }
  if (done && !probe_.added_to().empty()) {
    done = put(at(kAdded), probe_.added_to());
    if (done) {
      done = repeat(at(kAdded), Probe::kRows * c_stride(), 2 * Probe::kRows * c_stride());
    }
  }
  return done ? check("cuStreamSynchronize", api.stream_synchronize(stream_)) : done;
}

// What c holds before: NaNs where that must not matter, so that a row that is not written is found out.
Status Trial::prepare_c(std::size_t rows, std::size_t first) {
  const DriverApi& api = plan_->blas().device()->api();
  if (plan_->shape().out == ProductOut::narrow) {
    return check("cuMemsetD8Async", api.memset_d8_async(at(kC), 0xFF, rows * c_stride(), stream_));
  }
  const std::size_t few = std::min(rows, Probe::kRows) * c_stride();
  if (auto done = check("cuMemcpyAsync", api.memcpy_async(at(kC), at(kAdded) + first * c_stride(), few, stream_)); !done) {
    return done;
  }
  return repeat(at(kC), few, rows * c_stride());
}

// Enqueues a product whose row 0 is the probe's row `first`. False where the library refuses.
Result<bool> Trial::compute(const BlasAlgo& algo, std::size_t rows, std::size_t first) {
  if (auto done = prepare_c(rows, first); !done) {
    return std::move(done).error();
  }
  const std::size_t skipped = first * plan_->shape().ld_a * ProductShape::kNarrowBytes;
  const BlasStatus status = plan_->enqueue(algo, stream_, {at(kA) + skipped, at(kW), at(kC)}, rows, {at(kWorkspace), workspace_bytes_});
  if (status != BlasStatus::success && !is_refusal(status)) {
    return blas_error(plan_->blas().api(), "cublasLtMatmul", status);
  }
  return status == BlasStatus::success;
}

Result<std::span<const std::byte>> Trial::download(std::size_t row, std::size_t rows) {
  const DriverApi& api = plan_->blas().device()->api();
  staging_.resize(std::max(staging_.size(), rows * c_stride()));
  const std::span<std::byte> to = std::span(staging_).first(rows * c_stride());
  auto done = check("cuMemcpyDtoHAsync", api.memcpy_dtoh_async(to.data(), at(kC) + row * c_stride(), to.size(), stream_));
  if (done) {
    done = check("cuStreamSynchronize", api.stream_synchronize(stream_));
  }
  if (!done) {
    return std::move(done).error();
  }
  return std::span<const std::byte>(to);
}

// All the probe's rows, by as few at a time as the plan has.
Result<bool> Trial::take_references(const BlasAlgo& algo) {
  const std::size_t fewest = plan_->rows().front();
  references_.resize(Probe::kRows * c_row());
  for (std::size_t first = 0; first < Probe::kRows; first += fewest) {
    auto computed = compute(algo, fewest, first);
    if (!computed || !*computed) {
      return computed;
    }
    const std::size_t count = std::min(fewest, Probe::kRows - first);
    const auto got = download(0, count);
    if (!got) {
      return got.error();
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* row = got->data() + i * c_stride();
      if (!Probe::is_garbage(first + i) && !probe_.is_product(first + i, row)) {
        return false;
      }
      std::memcpy(references_.data() + (first + i) * c_row(), row, c_row());
    }
  }
  return true;
}

// Whether all rows of c are as the references.
Result<bool> Trial::same(std::size_t rows, std::size_t first) {
  bool all = true;
  for (std::size_t row = 0; row < rows && all; row += kRowsAtATime) {
    const std::size_t count = std::min(kRowsAtATime, rows - row);
    const auto got = download(row, count);
    if (!got) {
      return got.error();
    }
    for (std::size_t i = 0; i < count && all; ++i) {
      const std::size_t number = (first + row + i) % Probe::kRows;
      all = Probe::is_garbage(number) || std::memcmp(got->data() + i * c_stride(), references_.data() + number * c_row(), c_row()) == 0;
    }
  }
  return all;
}

Result<bool> Trial::passes(const BlasAlgo& algo) {
  auto good = take_references(algo);
  const auto rows = plan_->rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t placing = 0; placing < kPlacings; ++placing) {
      if (!good || !*good) {
        return good;
      }
      const std::size_t first = first_row(i, placing);
      good = compute(algo, rows[i], first);
      if (good && *good) {
        good = same(rows[i], first);
      }
    }
  }
  return good;
}

Status Trial::warm(const BlasAlgo& algo) {
  for (const std::size_t rows : plan_->rows()) {
    const auto computed = compute(algo, rows, 0);
    if (!computed) {
      return computed.error();
    }
    if (!*computed) {
      return Error(ErrorKind::device, "cublasLtMatmul refuses an algorithm that has been verified");
    }
  }
  return check("cuStreamSynchronize", plan_->blas().device()->api().stream_synchronize(stream_));
}

}  // namespace kime::cuda
