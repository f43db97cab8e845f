#include "kime/job/device_class.h"

#include <catch2/catch.hpp>

namespace {

using kime::ClassedDevice;
using kime::FleetDevice;
using Ordinals = std::vector<std::size_t>;

Ordinals fastest(std::vector<ClassedDevice> devices) {
  Ordinals ordinals;
  for (const auto& device : kime::fastest_class(std::move(devices))) {
    ordinals.push_back(device.ordinal);
  }
  return ordinals;
}

TEST_CASE("the class that is fastest together is kept, in its order") {
  CHECK(fastest({}).empty());
  CHECK(fastest({{2, "a", 1}, {0, "a", 4}}) == Ordinals{2, 0});
  CHECK(fastest({{0, "cpu", 3}, {1, "old", 4}, {2, "new", 2}, {3, "new", 3}, {4, "old", 0.5}}) == Ordinals{2, 3});
  CHECK(fastest({{0, "a", 2}, {1, "b", 2}}) == Ordinals{0});
}

TEST_CASE("hints compare devices of one kind only: a later kind is the faster one") {
  CHECK(fastest({{0, "cpu", 900, 0}, {1, "cpu", 900, 0}, {0, "gpu", 1, 1}}) == Ordinals{0});
  CHECK(fastest({{0, "cpu", 900, 0}, {0, "gpu", 1, 1}, {1, "other gpu", 2, 1}, {2, "gpu", 3, 1}}) == Ordinals{0, 2});
}

TEST_CASE("that several classes work is said once, of one class nothing") {
  std::string said;
  const auto notice = [&said](const std::string& text) { said += text + "\n"; };
  const auto devices = [](std::initializer_list<const char*> classes) {
    std::vector<FleetDevice> all;
    for (const char* each : classes) {
      all.push_back({.name = {}, .bits_class = each});
    }
    return all;
  };
  kime::tell_of_classes({}, notice);
  kime::tell_of_classes(devices({"a", "a"}), notice);
  kime::tell_of_classes(devices({"a", "b"}), nullptr);
  CHECK(said.empty());
  kime::tell_of_classes(devices({"a", "b", "a", "c"}), notice);
  CHECK(said == "devices of 3 classes work, so that bits may differ from run to run; --reproducible keeps to one class\n");
}

}  // namespace
