// Lines of one file whose counterparts have not come yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kime/base/error.h"
#include "kime/results/score_block.h"
#include "kime/results/spill_file.h"

namespace kime {

/// Holds 16 bytes a line in tables that are filled to between 53 and 80 %, and the lines themselves in a temporary file. Keys are
/// compared as text, so that two that share a hash are told apart.
class PendingScores {
 public:
  /// Errors: those of SpillFile.
  Status add(const ScoreView& line);
  /// Takes out the line with this one's key into `block`, cleared before; false where there is none. Errors: those of SpillFile.
  Result<bool> take(const ScoreView& like, ScoreBlock& block);
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Calls `see` with what is left, the first `most` in the order of their lines. Errors: those of SpillFile.
  Status first(std::size_t most, const std::function<void(const ScoreView&)>& see);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint64_t offset = kEmpty;
  };
  struct Table {
    std::vector<Slot> slots;
    std::size_t used = 0;
    [[nodiscard]] std::size_t home(std::uint64_t hash) const;
    void insert(Slot slot);
    void grow();
    void erase(std::size_t at);
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static constexpr std::size_t kTables = 256;  ///< Each grows by itself, so that growing needs little beside it.

  Table& table_of(std::uint64_t hash) { return tables_[hash >> 56U]; }
  Status load(std::uint64_t offset, ScoreBlock& block);

  std::array<Table, kTables> tables_;
  SpillFile file_;
  std::vector<char> bytes_;
  std::uint64_t size_ = 0;
};

}  // namespace kime
