// Generated lines: records that are right, and lines that are nearly JSON.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "kime/io/json_text.h"
#include "kime/io/record_parser.h"
#include "kime/io/score_writer.h"
#include "tests/io/same_parse.h"

using kime::Record;
using kime::RecordParser;
using nlohmann::json;

namespace {

constexpr std::size_t kVocab = 50368;

std::string any_space() {
  return *rc::gen::element<std::string>("", "", " ", "\t ", "\r");
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) {
    text += part;
  }
  return text;
}

std::string integers(const std::vector<std::uint32_t>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += joined({i == 0 ? "" : ",", any_space(), std::to_string(values[i]), any_space()});
  }
  return text + "]";
}

/// A JSON value as someone might write it.
std::string any_value() {
  return *rc::gen::oneOf(
      rc::gen::element<std::string>("null", "true", "-0", "1.50", "1e999", "[]", "{}", R"({"ids":[1],"id":2})", "[[1, 2], \"]\"]",
                                    R"("\"\\\u00e9")", "\"\xf0\x9f\x98\x80\"", "123456789012345678901234567890", R"("{")"),
      rc::gen::map(rc::gen::arbitrary<int>(), [](int value) { return std::to_string(value); }),
      rc::gen::map(rc::gen::string<std::string>(), [](const std::string& text) {
        std::string out;
        kime::append_json_string(out, text);
        return out;
      }));
}

struct Written {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> markers;
  int qtype = 0;
  std::string id;
  std::string kept;
  std::string line;
};

Written any_record() {
  Written w;
  w.ids = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, kVocab)));
  w.markers = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(w.ids.size())));
  w.qtype = *rc::gen::inRange(0, 3);
  const std::vector<std::string> names = {"\"choice\"", "\"score\"", "\"noul\""};
  const bool named = *rc::gen::arbitrary<bool>();
  std::vector<std::string> fields = {joined({"\"ids\"", any_space(), ":", integers(w.ids)}),
                                     joined({"\"markers\":", any_space(), integers(w.markers)}),
                                     joined({"\"qtype\":", named ? names[static_cast<std::size_t>(w.qtype)] : std::to_string(w.qtype)})};
  if (*rc::gen::arbitrary<bool>()) {
    w.id = any_value();
    fields.push_back(joined({"\"id\":", any_space(), w.id}));
  }
  const int others = *rc::gen::inRange(0, 4);
  for (int i = 0; i < others; ++i) {
    fields.emplace_back(i % 2 == 0 ? R"("x\u0041")" : R"("xy")");
  }
  for (std::size_t i = fields.size(); i > 1; --i) {
    std::swap(fields[i - 1], fields[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  w.line = joined({any_space(), "{"});
  for (const std::string& field : fields) {
    std::string text = field;
    if (field.find("\"x") == 0) {
      const std::string value = any_value();
      w.kept += joined({",", field, ":", value});
      text += joined({any_space(), ":", any_space(), value});
    }
    w.line += joined({w.line.back() == '{' ? "" : ",", any_space(), text, any_space()});
  }
  w.line += joined({"}", any_space()});
  return w;
}

/// Some bytes of a line changed, dropped, doubled or brought in from what JSON is made of.
std::string damaged(std::string line) {
  const int changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes && !line.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, line.size());
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        line[at] = *rc::gen::arbitrary<char>();
        break;
      case 1:
        line.erase(at, *rc::gen::inRange<std::size_t>(1, 20));
        break;
      case 2:
        line.insert(at, line.substr(at, *rc::gen::inRange<std::size_t>(1, 30)));
        break;
      default:
        line.insert(at, *rc::gen::element<std::string>("{", "}", "[", "]", ",", ":", "\"", "\\", "-", "1e999", ".5", "null", "0", "\xff",
                                                       "\"ids\":", "\"id\":", "\"error\":{}", " ", "\"label\":1,", "\\ud800", "\"act\":"));
    }
  }
  std::replace(line.begin(), line.end(), '\n', ' ');  // A reader never gives one.
  return line;
}

}  // namespace

TEST_CASE("right records are read back, with and without their other fields") {
  CHECK(rc::check("round trip", [] {
    const Written w = any_record();
    const bool keep = *rc::gen::arbitrary<bool>();
    RecordParser parser({.vocab = kVocab, .keep = keep});
    Record record;
    const auto error = parser.parse(w.line, record);
    RC_LOG() << w.line << "\n" << (error ? error->message : "");
    RC_ASSERT_FALSE(error.has_value());
    RC_ASSERT(record.ids == w.ids);
    RC_ASSERT(record.markers == w.markers);
    RC_ASSERT(record.qtype == w.qtype);
    RC_ASSERT(record.id == w.id);
    RC_ASSERT(record.kept == (keep ? w.kept : ""));
  }));
}

/// What must hold of any line at all.
void check_line(const std::string& line) {
  RecordParser parser({.vocab = kVocab, .keep = true, .labels = true});
  Record record;
  const auto error = parser.parse(line, record);
  RC_LOG() << line << "\n" << (error ? error->message : "");
  Record slowly;
  const auto slow_error = parser.parse_by_events(line, slowly);
  RC_ASSERT(kime::test::difference_of(record, error, slowly, slow_error).empty());
  const bool no_json = error && record.id == "null" && error->message.find("not JSON at byte ") == 0;
  // The library's own limits: numbers are tamed for it, a zero byte and a byte-order mark it lets pass.
  std::string tamed;
  kime::tame_numbers(line, tamed);
  const bool special = line.find('\0') != std::string::npos || line.substr(0, 1) == "\xef";
  RC_ASSERT(no_json == (special || !json::accept(tamed)));
  std::string out;
  const kime::LineHead head{record.id, 3, "", record.kept};
  if (error) {
    append_error(out, head, *error);
  } else {
    append_scores(out, head, {}, kime::Emit::logits);
  }
  kime::tame_numbers(out, tamed);
  RC_ASSERT(json::accept(tamed));
  RC_ASSERT(out.find('\n') == out.size() - 1);
}

TEST_CASE("a damaged line is JSON for the parser where it is for the library, and its error line is JSON") {
  CHECK(rc::check("damaged", [] {
    const std::string line = any_record().line;
    check_line(line);
    for (int i = 0; i < 30; ++i) {
      check_line(damaged(line));
    }
  }));
}

TEST_CASE("numbers are told from what only looks like them") {
  for (const std::string_view number : {"0", "-0", "10", "1.5", "0.0", "1e5", "1E+05", "-1.25e-7"}) {
    CAPTURE(number);
    CHECK(kime::is_json_number(number));
  }
  for (const std::string_view text : {"", "-", "01", "1.", ".5", "1e", "1e+", "+1", "1.5.5", "--1", "1x", "0x1", " 1"}) {
    CAPTURE(text);
    CHECK_FALSE(kime::is_json_number(text));
  }
}

TEST_CASE("numbers that float64 cannot hold are tamed in place, and nothing else") {
  const auto tame = [](std::string_view text) {
    std::string out;
    kime::tame_numbers(text, out);
    return out;
  };
  CHECK(tame(R"([1e308,1e309,-1e309 ,"1e309","\"1e309",1e-400])") == R"([1e308,0.000,-0.000 ,"1e309","\"1e309",0.0000])");
  CHECK(tame("01e999 1.e999 1e") == "01e999 1.e999 1e");
  CHECK(tame("\"open 1e999") == "\"open 1e999");
  CHECK(tame("\"open\\") == "\"open\\");
  CHECK(tame(std::string(400, '1')) == std::string("0.").append(398, '0'));
}
