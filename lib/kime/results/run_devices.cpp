#include "kime/results/run_devices.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "kime/io/line_reader.h"

namespace kime {
namespace {

using Json = nlohmann::json;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

Result<std::string> read_text(const std::string& path) {
  auto lines = LineReader::open(path, kMostBytes);
  if (!lines) {
    return std::move(lines).error();
  }
  std::string text;
  Line line;
  for (;;) {
    const auto next = lines->next(line);
    if (!next) {
      return next.error();
    }
    if (*next == LineReader::Next::end) {
      return text;
    }
    if (line.too_long || text.size() + line.text.size() > kMostBytes) {
      return Error(ErrorKind::input, fmt::format("{}: too long for the document of --stats", path));
    }
    text += line.text;
    text += '\n';
  }
}

// Fields of one object; the first that is not as it should be is kept as the problem.
class StatsFields {
 public:
  StatsFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  std::uint64_t count(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_number_unsigned()) {
      wrong(name, "a count");
      return 0;
    }
    return value->get<std::uint64_t>();
  }
  double number(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_number()) {
      wrong(name, "a number");
      return 0;
    }
    return value->get<double>();
  }
  std::string text(const char* name) {
    const Json* value = find(name);
    if (value == nullptr || !value->is_string()) {
      wrong(name, "a string");
      return {};
    }
    return value->get<std::string>();
  }
  std::string text_or_null(const char* name) {
    const Json* value = find(name);
    return value != nullptr && value->is_null() ? std::string() : text(name);
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void wrong(const char* name, std::string_view wanted) {
    if (problem_.empty()) {
      problem_ = fmt::format("{}{} is not {}", where_, name, wanted);
    }
  }

  const Json& object_;
  std::string where_;
  std::string problem_;
};

}  // namespace

Result<RunDevices> read_run_devices(const std::string& path) {
  const auto text = read_text(path);
  if (!text) {
    return text.error();
  }
  const auto wrong = [&](std::string_view what) { return Error(ErrorKind::input, fmt::format("{}: {}", path, what)); };
  const Json document = Json::parse(*text, nullptr, false);
  if (!document.is_object() || !document.contains("devices") || !document["devices"].is_array()) {
    return wrong("no document of `kime score --stats`: it has no list \"devices\"");
  }
  StatsFields fields(document, "");
  RunDevices run{fields.number("seconds"), fields.count("records"), fields.count("failed"),
                 fields.count("tokens"),   fields.count("batches"), {}};
  if (!fields.problem().empty()) {
    return wrong(fields.problem());
  }
  for (const Json& one : document["devices"]) {
    const std::string where = fmt::format("devices[{}]", run.devices.size());
    if (!one.is_object()) {
      return wrong(where + " is no object");
    }
    StatsFields of(one, where + ".");
    run.devices.push_back({of.text("device"), of.text("class"), of.text("precision"), of.text_or_null("retired"), of.count("streams"),
                           of.count("batches"), of.count("records"), of.count("tokens"), of.count("padding"), of.count("rescued"),
                           of.count("failures"), of.number("busy_share")});
    if (!of.problem().empty()) {
      return wrong(of.problem());
    }
  }
  return run;
}

}  // namespace kime
