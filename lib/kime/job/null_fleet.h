// A device that computes nothing: what a run costs beside its scores.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "kime/job/fleet.h"

namespace kime {

/// All its scores are 0, at once.
class NullFleet final : public Fleet {
 public:
  explicit NullFleet(std::size_t lanes);

  [[nodiscard]] std::size_t models() const override { return 1; }
  Status prepare(std::span<const Bucket> /*wanted*/) override { return {}; }
  [[nodiscard]] nlohmann::json debug_info() override { return nlohmann::json::object(); }
  [[nodiscard]] bool hangs() const override { return false; }
};

}  // namespace kime
