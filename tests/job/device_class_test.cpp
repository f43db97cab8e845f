#include "kime/job/device_class.h"

#include <catch2/catch.hpp>

namespace {

using kime::ClassedDevice;
using Ordinals = std::vector<std::size_t>;

TEST_CASE("devices of one class are all used, and nothing is said") {
  std::string said;
  const auto notice = [&said](const std::string& text) { said += text; };
  for (const bool reproducible : {false, true}) {
    CHECK(kime::keep_to_one_class({{2, "a", 1}, {0, "a", 4}}, reproducible, notice) == Ordinals{2, 0});
  }
  CHECK(kime::keep_to_one_class({}, true, notice).empty());
  CHECK(said.empty());
}

TEST_CASE("several classes all work, with one notice, or only the one that is fastest together") {
  std::string said;
  const auto notice = [&said](const std::string& text) { said += text + "\n"; };
  const std::vector<ClassedDevice> devices = {{0, "cpu", 3}, {1, "old", 4}, {2, "new", 2}, {3, "new", 3}, {4, "old", 0.5}};
  CHECK(kime::keep_to_one_class(devices, false, notice) == Ordinals{0, 1, 2, 3, 4});
  CHECK(said == "devices of 3 classes work, so that bits may differ from run to run; --reproducible keeps to one class\n");
  CHECK(kime::keep_to_one_class(devices, true, notice) == Ordinals{2, 3});
  CHECK(kime::keep_to_one_class({{0, "a", 2}, {1, "b", 2}}, true, notice) == Ordinals{0});
  CHECK(kime::keep_to_one_class(devices, false, nullptr).size() == 5);
}

}  // namespace
