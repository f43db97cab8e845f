// A fleet of one kind, with all the devices that its options name.
#pragma once

#include <vector>

#include "kime/job/fleet.h"

namespace kime::test {

inline Status start_all(KindFleet& fleet) {
  auto found = fleet.find();
  if (!found) {
    return std::move(found).error();
  }
  std::vector<std::size_t> ordinals;
  for (const auto& device : *found) {
    ordinals.push_back(device.ordinal);
  }
  return fleet.start(ordinals, 0);
}

}  // namespace kime::test
