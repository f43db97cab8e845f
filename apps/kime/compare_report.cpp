#include "compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "kime/base/counted.h"

namespace kime::app {

namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kShown = 10;

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

std::string optional_text(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "null";
}

// The id as the value that it is; a beginning of one is a string.
Json id_json(const std::string& id) {
  Json value = Json::parse(id, nullptr, false);
  return value.is_discarded() ? Json(id) : value;
}

Json record_json(const ShownRecord& record) {
  return {{"id", id_json(record.id)},
          {"old_line", record.old_line == 0 ? Json() : Json(record.old_line)},
          {"new_line", record.new_line == 0 ? Json() : Json(record.new_line)}};
}

template <class T, class Extra>
Json list_json(const std::vector<T>& items, Extra extra) {
  Json all = Json::array();
  for (const T& item : items) {
    Json one = record_json(item.record);
    one.update(extra(item));
    all.push_back(std::move(one));
  }
  return all;
}

std::string where(const ShownRecord& record) {
  if (record.new_line == 0) {
    return fmt::format("{} (line {})", record.id, record.old_line);
  }
  if (record.old_line == 0 || record.old_line == record.new_line) {
    return fmt::format("{} (line {})", record.id, record.new_line);
  }
  return fmt::format("{} (lines {} and {})", record.id, record.old_line, record.new_line);
}

std::string share(std::uint64_t part, std::uint64_t of) {
  return of == 0 ? "" : fmt::format(" ({:.2f} %)", std::floor(1e4 * static_cast<double>(part) / static_cast<double>(of)) / 100);
}

class Text {
 public:
  explicit Text(const ScoreDifferences& found) : found_(found) {}

  std::string all() {
    head();
    fields();
    flips();
    failures();
    worst();
    line("{}", found_.passed() ? "within tolerance" : "differences");
    return std::move(text_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void head() {
    line("old: {}: {}, {}", found_.old_name, counted(found_.old_records, "record"), counted(found_.old_errors, "error"));
    line("new: {}: {}, {}", found_.new_name, counted(found_.new_records, "record"), counted(found_.new_errors, "error"));
    line("{} compared: {} the same bits{}, {} beyond tolerance", counted(found_.compared, "record"), grouped(found_.same_records),
         share(found_.same_records, found_.compared), grouped(found_.failed_of(ScoreFailure::distance)));
    line("");
  }

  void fields() {
    line("{:<18}{:>14}{:>14}{:>12}{:>12}{:>12}", "field", "numbers", "same bits", "largest", "mean", "beyond");
    for (const ScoreField field : kAllScoreFields) {
      const FieldDifferences& of = found_.fields[index_of(field)];
      if (of.records == 0) {
        continue;
      }
      const bool apart = field != ScoreField::choice;
      line("{:<18}{:>14}{:>14}{:>12}{:>12}{:>12}", name_of(field), grouped(of.numbers), grouped(of.same),
           apart ? fmt::format("{:.3g}", of.largest) : "", apart ? fmt::format("{:.3g}", of.mean()) : "", grouped(of.beyond));
    }
    for (const ScoreField field : kAllScoreFields) {
      const FieldDifferences& of = found_.fields[index_of(field)];
      if (of.lengths > 0) {
        line("{}: of another length in {}", name_of(field), counted(of.lengths, "record"));
      }
      if (found_.uneven(field)) {
        line("{}: in only one of the two lines of {}, first in lines {} and {}", name_of(field),
             counted(of.only_old + of.only_new, "record"), of.uneven_old_line, of.uneven_new_line);
      }
      if (found_.old_fields.has(field) != found_.new_fields.has(field)) {
        line("{}: only in {}, not compared", name_of(field), found_.old_fields.has(field) ? "old" : "new");
      }
    }
    line("");
  }

  void flips() {
    if (found_.flips == 0) {
      return;
    }
    line("{}; those with the largest margins:", counted(found_.flips, "flip"));
    for (std::size_t i = 0; i < std::min(kShown, found_.shown_flips.size()); ++i) {
      const ShownFlip& flip = found_.shown_flips[i];
      const std::string margins = flip.margin_before ? fmt::format(", by {:.3g} and then by {:.3g} ({})", *flip.margin_before,
                                                                   flip.margin_after.value_or(0), flip.unit)
                                                     : "";
      line("  {}: {} {} -> {}{}", where(flip.record), flip.kind, optional_text(flip.before), optional_text(flip.after), margins);
    }
    line("");
  }

  void failures() {
    for (std::size_t i = 0; i < kScoreFailures; ++i) {
      const auto failure = static_cast<ScoreFailure>(i);
      const std::uint64_t count = found_.failed_of(failure);
      if (count == 0) {
        continue;
      }
      line("{}: {}", failure_text(failure), counted(count, "record"));
      std::size_t shown = 0;
      for (const ShownFailure& one : found_.failures) {
        if (one.failure == failure && shown < kShown) {
          line("  {}: {}", where(one.record), one.why);
          ++shown;
        }
      }
      if (count > shown) {
        line("  and {} more", grouped(count - shown));
      }
    }
  }

  static std::string_view failure_text(ScoreFailure failure) {
    switch (failure) {
      case ScoreFailure::distance:
        return "beyond tolerance";
      case ScoreFailure::error_came:
        return "an error came";
      case ScoreFailure::error_went:
        return "an error went";
      case ScoreFailure::error_changed:
        return "an error of another kind";
      case ScoreFailure::only_old:
        return "only in old";
      case ScoreFailure::only_new:
        break;
    }
    return "only in new";
  }

  void worst() {
    if (found_.worst.empty()) {
      return;
    }
    line("the largest distances:");
    for (const ShownDistance& one : found_.worst) {
      line("  {}: {}{}: {} against {}, {:.3g} apart", where(one.record), name_of(one.field),
           is_list(one.field) ? fmt::format("[{}]", one.index) : "", one.before, one.after, one.distance);
    }
    line("");
  }

  const ScoreDifferences& found_;
  std::string text_;
};

Json fields_json(const ScoreDifferences& found) {
  Json all = Json::object();
  for (const ScoreField field : kAllScoreFields) {
    const FieldDifferences& of = found.fields[index_of(field)];
    if (!found.common_fields().has(field)) {
      continue;
    }
    all[std::string(name_of(field))] = {{"records", of.records},
                                        {"numbers", of.numbers},
                                        {"same_bits", of.same},
                                        {"largest_distance", field == ScoreField::choice ? Json() : Json(of.largest)},
                                        {"mean_distance", field == ScoreField::choice ? Json() : Json(of.mean())},
                                        {"beyond_tolerance", of.beyond},
                                        {"other_length", of.lengths},
                                        {"only_in_old_line", of.only_old},
                                        {"only_in_new_line", of.only_new}};
  }
  return all;
}

Json field_names(ScoreFieldSet of, ScoreFieldSet other) {
  Json names = Json::array();
  for (const ScoreField field : kAllScoreFields) {
    if (of.has(field) && !other.has(field)) {
      names.push_back(name_of(field));
    }
  }
  return names;
}

}  // namespace

std::string compare_text(const ScoreDifferences& found) {
  return Text(found).all();
}

nlohmann::ordered_json compare_json(const ScoreDifferences& found) {
  Json failed = Json::object();
  for (std::size_t i = 0; i < kScoreFailures; ++i) {
    failed[std::string(name_of(static_cast<ScoreFailure>(i)))] = found.failed[i];
  }
  return {{"passed", found.passed()},
          {"old", {{"file", found.old_name}, {"records", found.old_records}, {"errors", found.old_errors}}},
          {"new", {{"file", found.new_name}, {"records", found.new_records}, {"errors", found.new_errors}}},
          {"tolerance",
           {{"logit", optional_json(found.tolerance.logit)},
            {"prob", optional_json(found.tolerance.prob)},
            {"act", optional_json(found.tolerance.act)},
            {"rel", optional_json(found.tolerance.rel)}}},
          {"matched", found.matched},
          {"compared", found.compared},
          {"same_bits", found.same_records},
          {"errors_in_both", found.errors_both},
          {"failed", failed},
          {"fields", fields_json(found)},
          {"only_in_old", field_names(found.old_fields, found.new_fields)},
          {"only_in_new", field_names(found.new_fields, found.old_fields)},
          {"flips",
           {{"count", found.flips},
            {"shown", list_json(found.shown_flips,
                                [](const ShownFlip& flip) -> Json {
                                  return {{"kind", flip.kind},
                                          {"old", optional_json(flip.before)},
                                          {"new", optional_json(flip.after)},
                                          {"old_margin", optional_json(flip.margin_before)},
                                          {"new_margin", optional_json(flip.margin_after)},
                                          {"margin_unit", flip.unit.empty() ? Json() : Json(flip.unit)}};
                                })}}},
          {"worst", list_json(found.worst,
                              [](const ShownDistance& one) -> Json {
                                return {{"field", name_of(one.field)},
                                        {"index", is_list(one.field) ? Json(one.index) : Json()},
                                        {"old", one.before},
                                        {"new", one.after},
                                        {"distance", one.distance}};
                              })},
          {"failures", list_json(found.failures, [](const ShownFailure& one) -> Json {
             return {{"failure", name_of(one.failure)}, {"why", one.why}};
           })}};
}

}  // namespace kime::app
