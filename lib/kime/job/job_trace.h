// A job's rows of a trace; nothing happens without one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kime/job/fleet.h"
#include "kime/job/trace.h"

namespace kime {

/// From any thread. The trace outlives it.
class JobTrace {
 public:
  JobTrace(Trace* trace, const Fleet& fleet) : trace_(trace) {
    if (trace_ == nullptr) {
      return;
    }
    reads_ = trace_->row("reads");
    writes_ = trace_->row("writes");
    std::vector<std::size_t> lanes_of(fleet.devices().size());
    for (const auto& lane : fleet.lanes()) {
      const std::size_t device = lane->devices()[0];
      lanes_.push_back(trace_->row(fleet.devices()[device].name + "." + std::to_string(lanes_of[device]++) + " batches"));
    }
  }

  /// Since `begin`, until now.
  void read(std::uint64_t begin, std::size_t records, std::size_t tokens) {
    if (trace_ != nullptr) {
      trace_->span(reads_, "read", begin, Trace::now(), records, tokens);
    }
  }
  void wrote(std::uint64_t begin) {
    if (trace_ != nullptr) {
      trace_->span(writes_, "write", begin, Trace::now());
    }
  }
  void ran(std::size_t lane, bool failed, std::uint64_t begin, std::uint64_t end, std::size_t records, std::size_t tokens) {
    if (trace_ != nullptr) {
      trace_->span(lanes_[lane], failed ? "failed batch" : "batch", begin, end, records, tokens);
    }
  }

 private:
  Trace* trace_;
  std::size_t reads_ = 0;
  std::size_t writes_ = 0;
  std::vector<std::size_t> lanes_;
};

}  // namespace kime
