// Lines of a score file, parsed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kime {

/// What a line of scores may say, in the order in which kime writes it. Each is a list of numbers: the first three of any length, the
/// others of one, or of none where they are null.
enum class ScoreField : std::uint8_t { logits, act, probs, choice, score, noul, confidence, answer_confidence, act_probability };

inline constexpr std::size_t kScoreFields = 9;
inline constexpr std::array<ScoreField, kScoreFields> kAllScoreFields = {
    ScoreField::logits,         ScoreField::act,  ScoreField::probs,      ScoreField::choice,
    ScoreField::score,          ScoreField::noul, ScoreField::confidence, ScoreField::answer_confidence,
    ScoreField::act_probability};

[[nodiscard]] constexpr std::size_t index_of(ScoreField field) {
  return static_cast<std::size_t>(field);
}
[[nodiscard]] constexpr std::string_view name_of(ScoreField field) {
  constexpr std::array<std::string_view, kScoreFields> kNames = {
      "logits", "act", "probs", "choice", "score", "noul", "confidence", "answer_confidence", "act_probability"};
  return kNames[index_of(field)];
}
[[nodiscard]] constexpr bool is_list(ScoreField field) {
  return index_of(field) <= index_of(ScoreField::probs);
}

/// A set of fields, a bit each.
class ScoreFieldSet {
 public:
  void add(ScoreField field) { bits_ = static_cast<std::uint16_t>(bits_ | (1U << index_of(field))); }
  void add(ScoreFieldSet others) { bits_ = static_cast<std::uint16_t>(bits_ | others.bits_); }
  [[nodiscard]] bool has(ScoreField field) const { return ((bits_ >> index_of(field)) & 1U) != 0; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  [[nodiscard]] ScoreFieldSet both(ScoreFieldSet other) const {
    ScoreFieldSet set;
    set.bits_ = static_cast<std::uint16_t>(bits_ & other.bits_);
    return set;
  }
  bool operator==(const ScoreFieldSet&) const = default;

 private:
  std::uint16_t bits_ = 0;
};

/// 128 bits of a key.
struct KeyHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const KeyHash&) const = default;
};

/// One line, in a block that must outlive it.
struct ScoreView {
  std::uint64_t line = 0;
  KeyHash hash;            ///< Of `key`.
  std::string_view key;    ///< What the line is matched by: its id, its file and, where the id is null, its line, as they stood.
  std::string_view id;     ///< JSON as it stood.
  std::string_view error;  ///< The error object as it stood, or empty.
  std::string_view label;  ///< The kept field of that name as it stood, or empty.
  ScoreFieldSet fields;
  std::array<std::span<const double>, kScoreFields> values;

  [[nodiscard]] bool has(ScoreField field) const { return fields.has(field); }
  [[nodiscard]] std::span<const double> of(ScoreField field) const { return values[index_of(field)]; }
};

/// Some lines in a row. Reused, so that a block that has grown allocates nothing.
struct ScoreBlock {
  struct Slice {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };
  struct Entry {
    std::uint64_t line = 0;
    KeyHash hash;
    Slice key;  ///< These four are of `text`; the id is the key's first part.
    Slice id;
    Slice error;
    Slice label;
    ScoreFieldSet fields;
    std::array<Slice, kScoreFields> values;  ///< Of `numbers`.
  };
  std::vector<Entry> entries;
  std::vector<double> numbers;
  std::string text;

  void clear() {
    entries.clear();
    numbers.clear();
    text.clear();
  }
  [[nodiscard]] std::string_view text_of(Slice slice) const { return {text.data() + slice.begin, slice.count}; }
  [[nodiscard]] ScoreView view(std::size_t i) const {
    const Entry& entry = entries[i];
    ScoreView view{entry.line,           entry.hash,           text_of(entry.key), text_of(entry.id),
                   text_of(entry.error), text_of(entry.label), entry.fields,       {}};
    for (std::size_t f = 0; f < kScoreFields; ++f) {
      view.values[f] = {numbers.data() + entry.values[f].begin, entry.values[f].count};
    }
    return view;
  }
};

}  // namespace kime
