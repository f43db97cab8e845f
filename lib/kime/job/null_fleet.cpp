#include "kime/job/null_fleet.h"

namespace kime {

namespace {

/// Tokens of a batch, as the CPU takes them.
constexpr std::size_t kTarget = 2048;

class NullLane final : public Lane {
 public:
  NullLane() { host->outputs.resize(1); }

  [[nodiscard]] std::vector<std::size_t> devices() const override { return {0}; }
  std::optional<LaneFailure> prepare(std::span<const Bucket> /*buckets*/) override { return std::nullopt; }
  std::optional<LaneFailure> score(Bucket& used) override {
    const Batch batch = host->buffer.batch();
    used = {batch.ids.size(), batch.qtype.size(), batch.markers.size()};
    host->outputs[0].logits.assign(batch.markers.size(), 0);
    host->outputs[0].act.assign(batch.qtype.size(), {});
    return std::nullopt;
  }
  bool repair(std::span<const char> /*retired*/) override { return true; }
};

}  // namespace

NullFleet::NullFleet(std::size_t lanes) {
  devices_.push_back({.name = "null:0", .bits_class = "null", .streams = lanes, .target = kTarget});
  for (std::size_t i = 0; i < lanes; ++i) {
    lanes_.push_back(std::make_shared<NullLane>());
  }
}

}  // namespace kime
