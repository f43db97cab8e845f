// Finds keys that come twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kime/base/error.h"
#include "kime/results/score_block.h"
#include "kime/results/spill_file.h"

namespace kime {

/// Remembers 16 bytes a key, most of them in a temporary file: memory stays at about a megabyte, and 1/256 of the log at the end. Keys are
/// told apart by 96 bits: among a billion the chance that two are taken for one is one in 10^11.
class IdLog {
 public:
  struct Twice {
    std::uint64_t first = 0;  ///< Lines.
    std::uint64_t second = 0;
  };

  /// Errors: those of SpillFile.
  Status add(const KeyHash& hash, std::uint64_t line);
  /// The earliest line whose key has been on a line before, if there is one. Errors: those of SpillFile.
  Result<std::optional<Twice>> first_twice();

 private:
  static constexpr unsigned kLineBits = 40;
  static constexpr std::size_t kParts = 256;
  static constexpr std::size_t kChunk = 256;  ///< Entries: 4 KiB.

  struct Entry {
    std::uint64_t low = 0;
    std::uint64_t high_and_line = 0;
    [[nodiscard]] bool same_key(const Entry& other) const {
      return low == other.low && (high_and_line >> kLineBits) == (other.high_and_line >> kLineBits);
    }
    [[nodiscard]] std::uint64_t line() const { return high_and_line & ((std::uint64_t{1} << kLineBits) - 1); }
  };

  struct Part {
    std::vector<Entry> held;
    std::vector<std::uint64_t> chunks;  ///< Their offsets in the file.
  };
  Result<std::vector<Entry>> load(Part& part);
  void find_twice(const std::vector<Entry>& entries, std::optional<Twice>& found);

  std::array<Part, kParts> parts_;
  SpillFile file_;
  std::vector<std::uint32_t> table_;  ///< While one part is searched.
};

}  // namespace kime
