// A record on its way through a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kime/batch/packer.h"
#include "kime/io/record.h"
#include "kime/job/in_flight.h"
#include "kime/job/intake.h"

namespace kime {

/// What the ring of records in flight holds; reused from record to record.
struct Slot {
  Record record;
  Where where;
  std::string text;  ///< The line, once it is known.
  std::uint32_t tokens = 0;
  bool failed = false;
  std::optional<bool> right;  ///< Whether its answer is its label, where it has one.

  [[nodiscard]] RecordSize size() const {
    return {static_cast<std::uint32_t>(record.ids.size()), static_cast<std::uint32_t>(record.markers.size())};
  }

  /// Makes it ready for the next record.
  void reset() {
    text.clear();
    failed = false;
    right.reset();
    tokens = 0;
    shrink(record.ids);
    shrink(record.markers);
    shrink(record.id);
    shrink(record.kept);
    shrink(text);
  }

 private:
  /// Bytes: more is given back. Else every slot would in the end hold the longest record that it ever had, and memory would creep up with
  /// the length of the job.
  static constexpr std::size_t kMostKept = 512;

  template <class Container>
  static void shrink(Container& container) {
    if (container.capacity() * sizeof(typename Container::value_type) > kMostKept) {
      Container().swap(container);
    }
  }
};

using Ring = InFlight<Slot>;

}  // namespace kime
