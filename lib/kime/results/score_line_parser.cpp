#include "kime/results/score_line_parser.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <iterator>

#include "kime/io/json_scanner.h"
#include "kime/io/json_text.h"

namespace kime {
namespace {

using Slice = ScoreBlock::Slice;

Slice append(std::string& text, std::string_view part) {
  const Slice slice{static_cast<std::uint32_t>(text.size()), static_cast<std::uint32_t>(part.size())};
  text += part;
  return slice;
}

// The fields of one line as they come.
class LineFields {
 public:
  LineFields(std::string_view line, ScoreBlock& block) : scanner_(line), block_(block) {}

  // Everything up to the end of the line; false with a problem.
  bool run() {
    if (!scanner_.take('{')) {
      scanner_.fail("expected '{'");
      return false;
    }
    if (!scanner_.take('}')) {
      do {
        if (!field()) {
          return false;
        }
      } while (scanner_.take(','));
      if (!scanner_.take('}')) {
        scanner_.fail("expected ',' or '}'");
        return false;
      }
    }
    return scanner_.at_end();
  }

  // Adds the entry. False where there is no id.
  bool finish(std::uint64_t number) {
    if (id_.empty()) {
      problem_ = "there is no field \"id\"";
      return false;
    }
    std::string& text = block_.text;
    entry_.line = number;
    entry_.id = entry_.key = append(text, id_);
    if (!file_.empty()) {
      text += '\0';
      text += file_;
    }
    if (id_ == "null" && !line_.empty()) {  // lines that are no JSON have this id and are told apart by their number
      text += '\n';
      text += line_;
    }
    entry_.key.count = static_cast<std::uint32_t>(text.size()) - entry_.key.begin;
    entry_.hash = hash_key(block_.text_of(entry_.key));
    entry_.error = append(text, error_);
    entry_.label = append(text, label_);
    block_.entries.push_back(entry_);
    return true;
  }

  [[nodiscard]] const std::string& problem() const { return problem_.empty() ? scanner_.problem() : problem_; }

 private:
  bool field() {
    const std::string_view quoted = scanner_.string();
    if (quoted.empty() || !scanner_.take(':')) {
      scanner_.fail("expected a field");
      return false;
    }
    if (quoted.find('\\') == std::string_view::npos) {
      return named(quoted.substr(1, quoted.size() - 2));
    }
    return named(unquoted(quoted));
  }

  bool named(std::string_view name) {
    for (const ScoreField known : kAllScoreFields) {
      if (name == name_of(known)) {
        return numbers(known);
      }
    }
    constexpr std::string_view kTexts[] = {"id", "file", "line", "error", "label"};
    std::string_view* const places[] = {&id_, &file_, &line_, &error_, &label_};
    for (std::size_t i = 0; i < std::size(kTexts); ++i) {
      if (name == kTexts[i]) {
        return text(name, *places[i]);
      }
    }
    return !scanner_.value().empty();
  }

  bool text(std::string_view name, std::string_view& place) {
    if (!place.empty()) {
      return twice(name);
    }
    place = scanner_.value();
    if (name == "error" && !place.empty() && place.front() != '{') {
      problem_ = "\"error\" is no object";
      return false;
    }
    return !place.empty();
  }

  bool twice(std::string_view name) {
    problem_ = fmt::format("\"{}\" comes twice", name);
    return false;
  }

  bool wrong(ScoreField field, std::string_view what) {
    std::string_view value = scanner_.value();
    problem_ = scanner_.failed() ? fmt::format("\"{}\": {}", name_of(field), scanner_.problem())
                                 : fmt::format("\"{}\" has {} where {}", name_of(field), shortened(value), what);
    return false;
  }

  bool one(ScoreField field, std::string_view what) {
    const char next = scanner_.peek();
    double value = 0;
    if (next != '-' && (next < '0' || next > '9')) {
      return wrong(field, what);
    }
    if (!scanner_.number(value)) {
      problem_ = fmt::format("\"{}\": {}", name_of(field), scanner_.problem());
      return false;
    }
    block_.numbers.push_back(value);
    return true;
  }

  bool numbers(ScoreField field) {
    if (entry_.fields.has(field)) {
      return twice(name_of(field));
    }
    entry_.fields.add(field);
    Slice& slice = entry_.values[index_of(field)];
    slice.begin = static_cast<std::uint32_t>(block_.numbers.size());
    if (!is_list(field)) {
      if (scanner_.null()) {
        return true;
      }
      slice.count = 1;
      return one(field, "a number or null belongs");
    }
    if (!scanner_.take('[')) {
      return wrong(field, "a list of numbers belongs");
    }
    if (scanner_.take(']')) {
      return true;
    }
    do {
      if (!one(field, "a number belongs")) {
        return false;
      }
    } while (scanner_.take(','));
    slice.count = static_cast<std::uint32_t>(block_.numbers.size()) - slice.begin;
    if (!scanner_.take(']')) {
      scanner_.fail("expected ',' or ']'");
      return false;
    }
    return true;
  }

  JsonScanner scanner_;
  ScoreBlock& block_;
  ScoreBlock::Entry entry_;
  std::string_view id_;
  std::string_view file_;
  std::string_view line_;
  std::string_view error_;
  std::string_view label_;
  std::string problem_;
};

}  // namespace

std::optional<std::string> parse_score_line(std::string_view line, std::uint64_t number, ScoreBlock& block) {
  const std::size_t numbers = block.numbers.size();
  LineFields fields(line, block);
  if (fields.run() && fields.finish(number)) {
    return std::nullopt;
  }
  block.numbers.resize(numbers);
  return fields.problem();
}

KeyHash hash_key(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return {hash.low64, hash.high64};
}

}  // namespace kime
