#include "kime/io/record_scan.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kime/base/answers.h"
#include "kime/io/json_scanner.h"
#include "kime/io/record_sax.h"

namespace kime {

namespace {

enum Seen : unsigned { kIds = 1, kMarkers = 2, kType = 4, kId = 8 };

// The scanner takes any escape of four digits, nlohmann's parser not a surrogate alone.
bool plain(std::string_view value) {
  return value.find("\\u") == std::string_view::npos;
}

std::optional<std::uint8_t> type_of(std::string_view value) {
  const auto* type = std::ranges::find(kTypeNames, value.size() > 2 && value[0] == '"' ? value.substr(1, value.size() - 2) : "");
  if (type != kTypeNames.end()) {
    return static_cast<std::uint8_t>(type - kTypeNames.begin());
  }
  return value.size() == 1 && value[0] >= '0' && value[0] <= '9' ? std::optional(static_cast<std::uint8_t>(value[0] - '0')) : std::nullopt;
}

class Scan {
 public:
  Scan(std::string_view line, const RecordParserOptions& options, Record& record) : scanner_(line), options_(options), record_(record) {}

  bool run() {
    if (!scanner_.take('{')) {
      return false;
    }
    do {
      const std::string_view quoted = scanner_.string();
      if (quoted.empty() || !plain(quoted) || !scanner_.take(':') || !field(quoted)) {
        return false;
      }
    } while (scanner_.take(','));
    constexpr unsigned kAll = kIds | kMarkers | kType;
    return scanner_.take('}') && scanner_.at_end() && (seen_ & kAll) == kAll;
  }

 private:
  bool field(std::string_view quoted) {
    const std::string_view name = quoted.substr(1, quoted.size() - 2);
    if (name == "ids") {
      return first(kIds) && scanner_.integers(record_.ids);
    }
    if (name == "markers") {
      return first(kMarkers) && scanner_.integers(record_.markers);
    }
    if (name == "error") {
      return false;
    }
    const std::string_view value = scanner_.value();
    if (value.empty() || !plain(value)) {
      return false;
    }
    if (name == "id") {
      record_.id = value;
      return first(kId);
    }
    if (name == "qtype") {
      const auto type = type_of(value);
      record_.qtype = type.value_or(0);
      return first(kType) && type;
    }
    if (options_.labels && name == "label") {
      record_.labelled = true;
      record_.label = option_of_label(value);
    }
    return !options_.keep || keep(quoted, value);
  }

  bool keep(std::string_view quoted, std::string_view value) {
    record_.kept += ',';
    record_.kept += quoted;
    record_.kept += ':';
    record_.kept += value;
    return !is_reserved_name(quoted.substr(1, quoted.size() - 2));
  }

  bool first(Seen field) {
    const bool before = (seen_ & field) != 0;
    seen_ |= field;
    return !before;
  }

  JsonScanner scanner_;
  const RecordParserOptions& options_;
  Record& record_;
  unsigned seen_ = 0;
};

}  // namespace

bool scan_record(std::string_view line, const RecordParserOptions& options, Record& record) {
  clear(record);
  return Scan(line, options, record).run();
}

}  // namespace kime
