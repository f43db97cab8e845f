#include "kime/job/mixed_fleet.h"

#include <algorithm>
#include <utility>

namespace kime {

namespace {

class MixedFleet final : public Fleet {
 public:
  explicit MixedFleet(std::vector<std::unique_ptr<KindFleet>> kinds) : kinds_(std::move(kinds)) {
    for (const auto& kind : kinds_) {
      devices_.insert(devices_.end(), kind->devices().begin(), kind->devices().end());
      lanes_.insert(lanes_.end(), kind->lanes().begin(), kind->lanes().end());
    }
  }
  ~MixedFleet() override { lanes_.clear(); }  // before the devices that they use
  MixedFleet(const MixedFleet&) = delete;
  MixedFleet& operator=(const MixedFleet&) = delete;

  [[nodiscard]] std::size_t models() const override { return kinds_[0]->models(); }

  Status prepare(std::span<const Bucket> wanted) override {
    Status all;
    for (const auto& kind : kinds_) {
      if (auto prepared = kind->prepare(wanted); !prepared && all) {
        all = std::move(prepared);
      }
    }
    return all;
  }

  [[nodiscard]] nlohmann::json debug_info() override {
    nlohmann::json info;
    auto devices = nlohmann::json::array();
    for (const auto& kind : kinds_) {
      auto of_kind = kind->debug_info();
      for (auto& device : of_kind["devices"]) {
        device["kind"] = kind->kind();
        devices.push_back(std::move(device));
      }
      of_kind.erase("devices");
      info["kinds"][std::string(kind->kind())] = std::move(of_kind);
    }
    info["devices"] = std::move(devices);
    return info;
  }

  [[nodiscard]] bool hangs() const override {
    return std::ranges::any_of(kinds_, [](const auto& kind) { return kind->hangs(); });
  }

 private:
  std::vector<std::unique_ptr<KindFleet>> kinds_;
};

// The kinds that take no part, and why.
class KindsLeftOut {
 public:
  void add(const WantedKind& kind, Error why) {
    const bool quiet = !kind.named && !kind.refused && kind.absent();
    kinds_.push_back({std::string(kind.fleet->kind()), std::move(why), quiet});
  }
  void tell(const std::function<void(const std::string&)>& notice) const {
    for (const auto& kind : kinds_) {
      if (notice && !kind.quiet) {
        notice(kind.name + " is left out: " + kind.why.text());
      }
    }
  }
  // When nothing is left.
  [[nodiscard]] Error error() const {
    const auto loud = std::ranges::find(kinds_, false, &Kind::quiet);
    return loud != kinds_.end() ? loud->why : kinds_.empty() ? Error(ErrorKind::device, "there is no device") : kinds_[0].why;
  }

 private:
  struct Kind {
    std::string name;
    Error why;
    bool quiet = false;
  };
  std::vector<Kind> kinds_;
};

// The devices of the kinds that can be used, which know their kind.
Result<std::vector<ClassedDevice>> find_all(std::span<const WantedKind> kinds, KindsLeftOut& left_out) {
  std::vector<ClassedDevice> devices;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    auto found = kinds[k].fleet->find();
    if (!found && found.error().kind() != ErrorKind::device) {
      return std::move(found).error();
    }
    if (found && kinds[k].refused && kinds[k].named) {
      return *kinds[k].refused;
    }
    if (!found || kinds[k].refused) {
      left_out.add(kinds[k], found ? *kinds[k].refused : std::move(found).error());
      continue;
    }
    for (auto& device : *found) {
      device.kind = k;
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

}  // namespace

Result<std::unique_ptr<Fleet>> start_fleet(std::vector<WantedKind> kinds, bool reproducible,
                                           const std::function<void(const std::string&)>& notice) {
  KindsLeftOut left_out;
  auto found = find_all(kinds, left_out);
  if (!found) {
    return std::move(found).error();
  }
  const auto devices = reproducible ? fastest_class(*std::move(found)) : *std::move(found);
  std::vector<std::unique_ptr<KindFleet>> started;
  std::size_t first = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    std::vector<std::size_t> ordinals;
    for (const auto& device : devices) {
      if (device.kind == k) {
        ordinals.push_back(device.ordinal);
      }
    }
    if (ordinals.empty()) {
      continue;
    }
    if (auto ready = kinds[k].fleet->start(ordinals, first); !ready) {
      if (ready.error().kind() == ErrorKind::input) {
        return std::move(ready).error();
      }
      left_out.add(kinds[k], std::move(ready).error());
      continue;
    }
    first += kinds[k].fleet->devices().size();
    started.push_back(std::move(kinds[k].fleet));
  }
  if (started.empty()) {
    return left_out.error();
  }
  left_out.tell(notice);
  std::unique_ptr<Fleet> fleet;
  if (started.size() == 1) {
    fleet = std::move(started[0]);
  } else {
    fleet = std::make_unique<MixedFleet>(std::move(started));
  }
  tell_of_classes(fleet->devices(), notice);
  return fleet;
}

}  // namespace kime
