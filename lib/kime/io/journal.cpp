#include "kime/io/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "kime/io/digest.h"

namespace kime {
namespace {

constexpr int kFormat = 1;
constexpr std::string_view kStart = "{\"kime_journal\":";
constexpr std::size_t kDigestLine = 33;

using Json = nlohmann::ordered_json;

// What stands behind kStart, if it is a number.
std::optional<std::string> format_of(std::string_view text) {
  if (!text.starts_with(kStart)) {
    return std::nullopt;
  }
  const auto digits = text.substr(kStart.size(), 10);
  const auto end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  return end == 0 ? std::nullopt : std::optional(std::string(digits.substr(0, end)));
}

const std::string* find(const JobFields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &JobFields::value_type::first);
  return found == fields.end() ? nullptr : &found->second;
}

Journal from_json(const Json& json) {
  Journal journal;
  journal.kime = json.at("kime");
  journal.replaces = json.at("replaces");
  for (const auto& [name, value] : json.at("job").items()) {
    journal.job.emplace_back(name, value);
  }
  const Json& state = json.at("state");
  journal.state = {.complete = state.at("complete"),
                   .output = state.at("output"),
                   .input = {.file = state.at("file"), .place = {state.at("offset"), state.at("line"), state.at("inside")}},
                   .scored = state.at("scored"),
                   .failed = state.at("failed"),
                   .tokens = state.at("tokens")};
  journal.tail = state.at("tail");
  return journal;
}

}  // namespace

std::string to_text(const Journal& journal) {
  Json job = Json::object();
  for (const auto& [name, value] : journal.job) {
    job[name] = value;
  }
  const JobState& state = journal.state;
  const LinePlace& place = state.input.place;
  const Json json = {{"kime_journal", kFormat},
                     {"kime", journal.kime},
                     {"replaces", journal.replaces},
                     {"job", job},
                     {"state",
                      {{"complete", state.complete},
                       {"output", state.output},
                       {"tail", journal.tail},
                       {"file", state.input.file},
                       {"offset", place.offset},
                       {"line", place.line},
                       {"inside", place.inside},
                       {"scored", state.scored},
                       {"failed", state.failed},
                       {"tokens", state.tokens}}}};
  // A path may hold bytes that are no UTF-8: shown as such, and the same each time.
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return text + digest_of(text) + "\n";
}

Result<Journal> parse_journal(std::string_view text, const std::string& name) {
  if (const auto format = format_of(text); format && *format != std::to_string(kFormat)) {
    return Error(ErrorKind::input, fmt::format("{}: is a journal of format {}; this kime reads format {}, so that the kime that began "
                                               "the job must end it",
                                               name, *format, kFormat));
  }
  if (text.size() <= kDigestLine || digest_of(text.substr(0, text.size() - kDigestLine)) + "\n" != text.substr(text.size() - kDigestLine)) {
    return Error(ErrorKind::input, fmt::format("{}: is no journal of kime's, or damaged: its digest is not that of its text", name));
  }
  try {
    return from_json(Json::parse(text.substr(0, text.size() - kDigestLine)));
  } catch (const Json::exception& error) {
    return Error(ErrorKind::input, fmt::format("{}: is no journal of kime's: {}", name, error.what()));
  }
}

std::string differences(const JobFields& was, const JobFields& is) {
  constexpr std::string_view none = "nothing";
  std::string text;
  const auto line = [&text, none](const std::string& name, const std::string* before, const std::string* now) {
    text += fmt::format("  {}: was {}, is {}\n", name, before == nullptr ? none : *before, now == nullptr ? none : *now);
  };
  for (const auto& [name, value] : is) {
    const std::string* before = find(was, name);
    if (before == nullptr || *before != value) {
      line(name, before, &value);
    }
  }
  for (const auto& [name, value] : was) {
    if (find(is, name) == nullptr) {
      line(name, &value, nullptr);
    }
  }
  return text;
}

}  // namespace kime
