// Runs a plan's steps over one batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kernels.h"
#include "kime/backend/cpu/crew.h"
#include "kime/backend/cpu/plan.h"
#include "kime/backend/cpu/profile.h"
#include "kime/batch/batch.h"
#include "kime/graph/planner.h"

namespace kime::cpu {

/// How many threads one run may use: those of the backend, shared by the runs that are active.
struct Share {
  const Crew& crew;
  const std::atomic<std::size_t>& active;
  std::size_t threads = 1;
  Profile* profile = nullptr;  ///< Where runs add their times, if anywhere.
};

/// Made for one run; a visitor of steps. How a step is split over workers never changes a result: every output element is computed by
/// one call of a kernel that does not know what else the call computes.
class Runner {
 public:
  /// `memory`: Code::bytes of it.
  Runner(const kernels::Table& kernels, const Share& share, const Plan& plan, const Batch& batch, std::byte* memory);

  /// Runs all steps and copies the results out: a logit for each marker, a pair for each sequence. Allocates nothing, unless
  /// it is profiled.
  void run(float* logits, float* act);

  void operator()(const EmbedStep& step) const;
  void operator()(const NormStep& step) const;
  void operator()(const GemmStep& step) const;
  void operator()(const AttentionStep& step) const;
  void operator()(const PicksStep& step) const;
  void operator()(const MarkersStep& step) const;
  void operator()(const TypeStep& step) const;
  void operator()(const FeaturesStep& step) const;

 private:
  // One sequence, head and range of queries.
  void attend(const AttentionStep& step, std::size_t seq, std::size_t head, std::size_t part, std::size_t parts, std::size_t worker) const;
  void index_picks() const;
  void prepare(const GemmStep& step, std::size_t rows) const;
  void run_profiled(Profile& profile) const;

  [[nodiscard]] float* data(const Matrix& matrix) const { return arena_ + matrix.offset; }
  [[nodiscard]] std::size_t rows(const Matrix& matrix) const { return row_count(matrix.rows, extent_); }
  // Workers for a step of about so many floating-point operations.
  [[nodiscard]] std::size_t width(std::size_t operations) const;
  // fn(first, last) over rows [0, rows), in parallel.
  template <class Fn>
  void split_rows(std::size_t rows, std::size_t operations_each, const Fn& fn) const;

  const kernels::Table& kernels_;
  Share share_;
  const Plan& plan_;
  const Batch& batch_;
  Extent extent_;
  float* arena_;
  float* scratch_;
  std::byte* prepared_;         ///< Rows of activations of the narrow gemm at hand.
  float* scales_;               ///< Theirs.
  std::uint32_t* pick_tokens_;  ///< The token of each pick, or kNoToken.
  std::uint32_t* query_rows_;   ///< The picks, sequence by sequence: sequence s has its own from s + mcu[s] on.
  std::uint32_t* positions_;    ///< Where each of these stands in its sequence.
};

}  // namespace kime::cpu
