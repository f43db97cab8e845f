// A kernel test runs for every compiled target; those that this machine lacks are named, not passed over in silence.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "kernels/cpu/kernels.h"

namespace kime::test {

/// Calls `test(table)` for every target that this CPU has, best first; of those that differ in narrow products only, for one. `test` runs
/// under INFO("target ..."); a target that it lacks gives a warning, once a process.
template <class F>
void each_target(F test) {
  static const bool named = [] {
    for (const char* name : kernels::compiled_targets()) {
      bool runs = false;
      for (const kernels::Table* table : kernels::tables()) {
        runs = runs || std::strcmp(table->target, name) == 0;
      }
      if (!runs) {
        WARN("target " << name << " is not tested: this CPU lacks it");
      }
    }
    return true;
  }();
  static_cast<void>(named);
  const kernels::Table* before = nullptr;
  for (const kernels::Table* table : kernels::tables()) {
    if (before == nullptr || before->gemm != table->gemm) {
      INFO("target " << table->target);
      test(*table);
    }
    before = table;
  }
}

/// Scalar code emulates each FMA by a call: tests give it less to do.
[[nodiscard]] inline bool is_slow(const kernels::Table& table) {
  return std::strcmp(table.target, "scalar") == 0;
}

}  // namespace kime::test
