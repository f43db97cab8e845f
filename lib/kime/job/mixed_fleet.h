// The fleet of a run: devices of one kind, or of several at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kime/base/error.h"
#include "kime/job/fleet.h"

namespace kime {

/// A kind of device that a run may use.
struct WantedKind {
  std::unique_ptr<KindFleet> fleet;
  bool named = true;             ///< Asked for by its name; else it is used where it can be.
  std::optional<Error> refused;  ///< Why it cannot be used, should there be devices of it.
  /// Asked when no device was found of a kind that nobody named: true where nothing suggests that there should be one.
  std::function<bool()> absent = [] { return false; };
};

/// Finds the devices of all kinds, slower kinds first, and starts them as one fleet; with `reproducible` only those of the class that is
/// fastest together. A kind of which none can be found or started is left out, and `notice`, if any, hears why; so it does of several
/// classes. Errors: `input` for what is not there, or cannot be read; a named kind that is refused; what kept the first kind from
/// starting, where none is left.
Result<std::unique_ptr<Fleet>> start_fleet(std::vector<WantedKind> kinds, bool reproducible,
                                           const std::function<void(const std::string&)>& notice);

}  // namespace kime
