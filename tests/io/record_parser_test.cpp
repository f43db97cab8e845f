#include "kime/io/record_parser.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "kime/io/json_text.h"
#include "kime/io/score_writer.h"
#include "tests/io/same_parse.h"

using kime::Record;
using kime::RecordError;
using kime::RecordParser;
using kime::test::difference_of;
using U32 = std::vector<std::uint32_t>;

namespace {

struct Parsed {
  Record record;
  std::optional<RecordError> error;
};

// What two ways of parsing a line do not agree on.
std::string difference(const Parsed& a, const Parsed& b) {
  return difference_of(a.record, a.error, b.record, b.error);
}

Parsed parse(std::string_view line, bool keep = false) {
  RecordParser parser({.vocab = 1000, .keep = keep});
  Parsed parsed;
  parsed.error = parser.parse(line, parsed.record);
  Parsed slowly;
  slowly.error = parser.parse_by_events(line, slowly.record);
  CHECK(difference(parsed, slowly).empty());
  if (parsed.error) {
    // Whatever the line was, what is written about it is one line of JSON.
    std::string out;
    append_error(out, {parsed.record.id, 7, "", parsed.record.kept}, *parsed.error);
    std::string tamed;
    kime::tame_numbers(out, tamed);
    CHECK(nlohmann::json::accept(tamed));
    CHECK(out.find('\n') == out.size() - 1);
  }
  return parsed;
}

/// "kind: message" of a line's error, or "".
std::string problem(std::string_view line, bool keep = false) {
  const auto error = parse(line, keep).error;
  return error ? error->kind + ": " + error->message : "";
}

/// The problem of a record whose `ids` are this text.
std::string with_ids(std::string_view ids) {
  return problem(R"({"ids":)" + std::string(ids) + R"(,"markers":[],"qtype":0})");
}
std::string with_markers(std::string_view markers) {
  return problem(R"({"ids":[1,2,3],"markers":)" + std::string(markers) + R"(,"qtype":0})");
}
std::string with_type(std::string_view type) {
  return problem(R"({"ids":[1],"markers":[],"qtype":)" + std::string(type) + "}");
}

std::string id_of(std::string_view id) {
  const auto parsed = parse(R"({"ids":[1],"markers":[],"id":)" + std::string(id) + R"(,"qtype":0})");
  CHECK_FALSE(parsed.error);
  return parsed.record.id;
}

constexpr std::string_view kRight = R"("ids":[1],"markers":[0],"qtype":1)";

}  // namespace

TEST_CASE("a record is read") {
  const auto parsed = parse(R"({"id": "t-17", "ids": [502, 22 , 0,999], "markers": [3, 0, 3], "qtype": "noul"})");
  REQUIRE_FALSE(parsed.error);
  CHECK(parsed.record.ids == U32{502, 22, 0, 999});
  CHECK(parsed.record.markers == U32{3, 0, 3});
  CHECK(parsed.record.qtype == 2);
  CHECK(parsed.record.id == "\"t-17\"");
  CHECK(parsed.record.kept.empty());
}

TEST_CASE("a record may be laid out in any way that JSON allows") {
  const auto parsed = parse(" \t{\"qtype\" :\t1 ,\"markers\":[ ] , \"\\u0069ds\"\r:[ 1\t,2 ]  }\r ");
  REQUIRE_FALSE(parsed.error);
  CHECK(parsed.record.ids == U32{1, 2});
  CHECK(parsed.record.markers.empty());
  CHECK(parsed.record.qtype == 1);
  CHECK(parsed.record.id.empty());
}

TEST_CASE("question types are numbers or names") {
  const auto type = [](std::string_view text) {
    return static_cast<int>(parse(R"({"ids":[1],"markers":[],"qtype":)" + std::string(text) + "}").record.qtype);
  };
  CHECK(type("0") == 0);
  CHECK(type("2") == 2);
  CHECK(type(R"("choice")") == 0);
  CHECK(type(R"("score")") == 1);
  CHECK(type(R"("no\u0075l")") == 2);
  CHECK(with_type("3") == "batch: sequence 0 has type 3 of 3");
  CHECK(with_type("255") == "batch: sequence 0 has type 255 of 3");
  const std::string known = R"(, not 0, 1, 2, "choice", "score" or "noul")";
  CHECK(with_type("256") == "json: qtype is 256" + known);
  CHECK(with_type("1.0") == "json: qtype is 1.0" + known);
  CHECK(with_type("-0") == "json: qtype is -0" + known);
  CHECK(with_type("null") == "json: qtype is null" + known);
  CHECK(with_type("[0]") == "json: qtype is an array" + known);
  CHECK(with_type(R"("rank")") == R"(json: qtype is "rank")" + known);
  CHECK(with_type(R"("Choice")") == R"(json: qtype is "Choice")" + known);
}

TEST_CASE("a value that is no array of integers is named") {
  const std::string range = ", not an integer from 0 to 4294967295";
  CHECK(with_ids("[1,-1]") == "json: ids[1] is -1" + range);
  CHECK(with_ids("[4294967296]") == "json: ids[0] is 4294967296" + range);
  CHECK(with_ids("[1e3]") == "json: ids[0] is 1e3" + range);
  CHECK(with_ids("[1, 2 ,1.0 , 3]") == "json: ids[2] is 1.0" + range);
  CHECK(with_ids("[1.5]") == "json: ids[0] is 1.5" + range);
  CHECK(with_ids("[-0]") == "json: ids[0] is -0" + range);
  CHECK(with_ids("[18446744073709551616]") == "json: ids[0] is 18446744073709551616" + range);
  CHECK(with_ids("[1e999]") == "json: ids[0] is 1e999" + range);
  CHECK(with_ids("[null]") == "json: ids[0] is null" + range);
  CHECK(with_ids("[true]") == "json: ids[0] is true" + range);
  CHECK(with_ids(R"([1,"2"])") == R"(json: ids[1] is "2")" + range);
  CHECK(with_ids("[[1]]") == "json: ids[0] is an array" + range);
  CHECK(with_ids("[1,{}]") == "json: ids[1] is an object" + range);
  CHECK(with_ids("7") == "json: ids is 7, not an array of integers");
  CHECK(with_ids("null") == "json: ids is null, not an array of integers");
  CHECK(with_ids(R"("1,2")") == R"(json: ids is "1,2", not an array of integers)");
  CHECK(with_ids(R"({"0":1})") == "json: ids is an object, not an array of integers");
  CHECK(with_markers("[0,-1]") == "json: markers[1] is -1" + range);
  CHECK(with_markers("0") == "json: markers is 0, not an array of integers");
  const std::string digits(200, '7');
  CHECK(with_ids("[" + digits + "]") == "json: ids[0] is " + digits.substr(0, 60) + "..." + range);
  CHECK(with_ids("[4294967295]") == "batch: token id 4294967295 is past the vocabulary of 1000");
  CHECK(with_ids("[01]").find("json: not JSON at byte ") == 0);
  CHECK(with_ids("[1,]").find("json: not JSON at byte ") == 0);
  CHECK(with_ids("[,1]").find("json: not JSON at byte ") == 0);
  CHECK(with_ids("[1 2]").find("json: not JSON at byte ") == 0);
  CHECK(with_ids("[1").find("json: not JSON at byte ") == 0);
}

TEST_CASE("a long string in a message is cut between characters") {
  std::string text;
  for (int i = 0; i < 50; ++i) {
    text += "\xe2\x82\xac";
  }
  const auto message = with_ids("\"" + text + "\"");
  CHECK(message.find("json: ids is \"" + text.substr(0, 60) + "...\"") == 0);
  CHECK(with_ids("\"x" + text + "\"").find("json: ids is \"x" + text.substr(0, 57) + "...\"") == 0);
}

TEST_CASE("a record is checked alone, with the messages of a batch") {
  CHECK(with_ids("[]") == "batch: ids is empty");
  CHECK(with_ids("[ ]") == "batch: ids is empty");
  CHECK(with_ids("[1,1000]") == "batch: token id 1000 is past the vocabulary of 1000");
  CHECK(with_markers("[2,9]") == "batch: marker 9 is past sequence 0 of 3 tokens");
  CHECK(with_markers("[3]") == "batch: marker 3 is past sequence 0 of 3 tokens");
  CHECK(with_markers("[2,0,2]").empty());
}

TEST_CASE("fields that must be there are missed by name") {
  CHECK(problem("{}") == "json: ids is missing");
  CHECK(problem(R"({"ids":[1],"qtype":0})") == "json: markers is missing");
  CHECK(problem(R"({"ids":[1],"markers":[]})") == "json: qtype is missing");
  CHECK(problem(R"({"IDS":[1],"markers":[],"qtype":0})") == "json: ids is missing");
  CHECK(problem(R"({"x":{"ids":[1],"markers":[],"qtype":0}})") == "json: ids is missing");
}

TEST_CASE("a field of the record that is given twice is an error, however it is spelled") {
  CHECK(problem(R"({"ids":[1],"ids":[2],"markers":[],"qtype":0})") == "json: ids is given twice");
  CHECK(problem(R"({"ids":[1],"\u0069ds":[2],"markers":[],"qtype":0})") == "json: ids is given twice");
  CHECK(problem(R"({"ids":[1],"markers":[],"markers":[],"qtype":0})") == "json: markers is given twice");
  CHECK(problem(R"({"ids":[1],"markers":[],"qtype":0,"qtype":0})") == "json: qtype is given twice");
  const auto parsed = parse(R"({"id":"a","ids":[1],"markers":[],"qtype":0,"id":"b"})");
  REQUIRE(parsed.error);
  CHECK(parsed.error->message == "id is given twice");
  CHECK(parsed.record.id == "\"a\"");
  CHECK(problem(R"({"x":1,"x":2,"y":{"ids":1,"ids":2},)" + std::string(kRight) + "}").empty());
}

TEST_CASE("an id is echoed byte for byte") {
  for (const std::string_view id :
       {R"("")", R"("a\"\u00e9\/ \\")", "\"\xc3\xa9\"", "0", "-0", "1.50", "1E5", "1e999", "-1e999", "1e-999",
        "123456789012345678901234567890", "null", "true", "false", R"({"a": [1, {"b" : "}"}], "a":2 })", "[ ]", R"([1e400,"1e400",-2])"}) {
    CAPTURE(id);
    CHECK(id_of(id) == id);
  }
  const std::string huge = std::string(1000, '9') + ".5";
  CHECK(id_of(huge) == huge);
  CHECK(parse(R"({"ids":[1],"markers":[],"qtype":0,"id":17})").record.id == "17");
  CHECK(parse(R"({"id" : 17 ,"ids":[1],"markers":[],"qtype":0})").record.id == "17");
}

TEST_CASE("a bad record keeps its id where the line is JSON, wherever it stands") {
  CHECK(parse(R"({"id":{"a":1},"ids":[1.5],"markers":[],"qtype":0})").record.id == R"({"a":1})");
  CHECK(parse(R"({"ids":[1.5],"markers":[],"qtype":0,"id":"late"})").record.id == "\"late\"");
  CHECK(parse(R"({"ids":["a",[{"id":5}]],"markers":{"id":6},"qtype":0,"id":"late"})").record.id == "\"late\"");
  CHECK(parse(R"({"ids":[1],"id":3})").record.id == "3");
  CHECK(parse(R"({"id":"a","ids":[1],"markers":[4],"qtype":0})").record.id == "\"a\"");
  CHECK(parse(R"({"ids":[1.5],"markers":[],"qtype":0})").record.id.empty());
  CHECK(parse("[1]").record.id.empty());
  CHECK(parse(R"({"id":"a","ids":[1])").record.id == "null");
}

TEST_CASE("what is not a JSON object is said with its place") {
  const auto no_json = [](std::string_view line) {
    const auto parsed = parse(line, true);
    REQUIRE(parsed.error);
    CHECK(parsed.record.id == "null");
    CHECK(parsed.record.kept.empty());
    CHECK(parsed.error->kind == "json");
    return parsed.error->message;
  };
  CHECK(no_json("hello") == "not JSON at byte 1, near 'hello': while parsing value - invalid literal");
  CHECK(no_json(R"({"id":"a","x":1,"ids":[1)")
            .find("not JSON at byte 24, near '\",\"x\":1,\"ids\":[1': while parsing array - unexpected end of input") == 0);
  CHECK(no_json(R"({"id":"a",})")
            .find("not JSON at byte 11, near '{\"id\":\"a\",}': while parsing object key - unexpected '}'; expected string literal") == 0);
  CHECK(no_json(R"({"id" 1})").find("not JSON at byte ") == 0);
  CHECK(no_json("{").find("not JSON at byte 1, near '") == 0);
  CHECK(no_json("").find("not JSON at byte 0, near '") == 0);
  CHECK(no_json("{'id':1}").find("not JSON at byte 2, near '") == 0);
  CHECK(no_json(R"({"a":NaN})").find("not JSON at byte ") == 0);
  CHECK(no_json(R"({"a":1} x)").find("not JSON at byte 9, near '") == 0);
  CHECK(no_json(R"({"a":1}{"a":1})").find("not JSON at byte 8, near '") == 0);
  CHECK(no_json("{" + std::string(kRight) + "} }").find("not JSON at byte ") == 0);
  CHECK(no_json(R"({"a":01e999})").find("not JSON at byte ") == 0);
  CHECK(no_json(R"({"a":1e999,"b":1.e999})").find("not JSON at byte ") == 0);
  CHECK(no_json("{\"a\":\"\xff\"}").find("invalid string: ill-formed UTF-8 byte") != std::string::npos);
  CHECK(no_json("{\"a\":\"\xed\xa0\x80\"}").find("ill-formed UTF-8") != std::string::npos);
  CHECK(no_json("{\"a\":\"\xc0\xaf\"}").find("ill-formed UTF-8") != std::string::npos);
  const std::string quoted = no_json("{\"a\":\"'; expected x'; last read: '\xff\"}");
  CHECK(quoted.substr(quoted.find(": while")).find("; last read") == std::string::npos);
  CHECK(no_json("{\"a\":\"\t\"}").find("control character") != std::string::npos);
  CHECK(no_json("\xef\xbb\xbf{}") == "not JSON at byte 1: a byte-order mark past the start of the file");
  const std::string zero = "{" + std::string(kRight) + "}" + std::string(1, '\0') + "x";
  CHECK(no_json(zero) == "not JSON at byte 36: a zero byte");
  CHECK(problem("[1]") == "json: the record is an array, not an object");
  CHECK(problem("17") == "json: the record is 17, not an object");
  CHECK(problem("null") == "json: the record is null, not an object");
  CHECK(problem(R"("x")") == R"(json: the record is "x", not an object)");
  CHECK(problem(R"([{"id":1},[2],"x",3.5])") == "json: the record is an array, not an object");
}

TEST_CASE("nesting is limited, and no depth does harm") {
  const auto nested = [](std::size_t levels, std::string_view open, std::string_view close) {
    std::string line = R"({"id":5,"x":)";
    for (std::size_t i = 0; i < levels; ++i) {
      line += open;
    }
    line += "1";
    for (std::size_t i = 0; i < levels; ++i) {
      line += close;
    }
    return line + "," + std::string(kRight) + "}";
  };
  CHECK(problem(nested(1023, "[", "]")).empty());
  CHECK(problem(nested(1024, "[", "]")) == "json: nested deeper than 1024 levels");
  CHECK(problem(nested(1024, "{\"a\":", "}")) == "json: nested deeper than 1024 levels");
  CHECK(parse(nested(100000, "[", "]")).record.id == "5");
  CHECK(problem(nested(100000, "[", "]")) == "json: nested deeper than 1024 levels");
  CHECK(problem(std::string(100000, '[')).find("json: not JSON at byte 100000, near '[[") == 0);
  CHECK(with_ids(std::string(100000, '[') + std::string(100000, ']')).find("json: ids[0] is an array") == 0);
}

TEST_CASE("other fields are ignored, or kept byte for byte") {
  const std::string line = R"({"te\u0078t" : "a\u00e9 \"}", "id":1, "n":1.50 ,"ids":[1],"o": { "a" : [1 , 2] },"markers":[0],"e":1e999,)"
                           R"("n":null,"qtype":1,"s":-7})";
  CHECK(parse(line).record.kept.empty());
  const auto parsed = parse(line, true);
  REQUIRE_FALSE(parsed.error);
  CHECK(parsed.record.kept == R"(,"te\u0078t":"a\u00e9 \"}","n":1.50,"o":{ "a" : [1 , 2] },"e":1e999,"n":null,"s":-7)");
  CHECK(parsed.record.id == "1");
  CHECK(parse(R"({"x":1,"ids":[1.5],"y":2})", true).record.kept == R"(,"x":1,"y":2)");
}

TEST_CASE("a kept field must not have the name of one that is written") {
  for (const std::string name : {"file", "line", "logits", "act", "probs", "choice", "score", "noul", "confidence", "answer_confidence",
                                 "act_probability", "error", R"(l\u006fgits)"}) {
    CAPTURE(name);
    const std::string line = R"({"x":1,")" + name + R"(":{"a":1},"id":4,)" + std::string(kRight) + "}";
    CHECK(problem(line).empty());
    const std::string plain = name[1] == '\\' ? "logits" : name;
    CHECK(problem(line, true) == "json: the field " + plain + " cannot be kept: kime writes one of that name");
    CHECK(parse(line, true).record.kept == R"(,"x":1)");
    CHECK(parse(line, true).record.id == "4");
  }
  CHECK(problem(R"({"x":{"error":1},)" + std::string(kRight) + "}", true).empty());
}

TEST_CASE("a line with an error object in place of ids is passed on") {
  const std::string_view line = R"({"id": "a", "line":3, "file":"x", "k": 1, "error": {"kind": "encode", "message":"too \u0061"}})";
  for (const bool keep : {false, true}) {
    CAPTURE(keep);
    const auto parsed = parse(line, keep);
    REQUIRE(parsed.error);
    CHECK(parsed.error->object == R"({"kind": "encode", "message":"too \u0061"})");
    CHECK(parsed.record.id == "\"a\"");
    CHECK(parsed.record.kept == (keep ? R"(,"k":1)" : ""));
  }
  CHECK(problem(R"({"error":"text"})") == "json: ids is missing");
  CHECK(problem(R"({"error":{},)" + std::string(kRight) + "}").empty());
  CHECK(problem(R"({"error":{"a":1e999},"ids":[]})") == "json: markers is missing");
  CHECK(parse(R"({"error":{"a":1e999}})").error->object == R"({"a":1e999})");
  CHECK(problem(R"({"error":{"kind":"x"},"id":1,"id":2})") == "json: id is given twice");
  CHECK(problem(R"({"error":{"kind":"x"},"logits":[]})", true) == "json: the field logits cannot be kept: kime writes one of that name");
}

TEST_CASE("a parser and its record are used again") {
  RecordParser parser({.vocab = 1000, .keep = true});
  Record record;
  REQUIRE_FALSE(parser.parse(R"({"id":1,"ids":[1,2,3],"markers":[2],"qtype":2,"x":1})", record));
  REQUIRE(parser.parse("nonsense", record));
  REQUIRE_FALSE(parser.parse(R"({"ids":[4],"markers":[],"qtype":0})", record));
  CHECK(record.ids == U32{4});
  CHECK(record.markers.empty());
  CHECK(record.qtype == 0);
  CHECK(record.id.empty());
  CHECK(record.kept.empty());
}

TEST_CASE("a label is read where it is asked for, beside what else becomes of it") {
  Record record;
  const auto label = [&record](std::string_view value, bool labels, bool keep) {
    RecordParser parser({.vocab = 1000, .keep = keep, .labels = labels});
    const auto error = parser.parse(R"({"ids":[1],"label": )" + std::string(value) + R"( ,"markers":[],"qtype":0})", record);
    CHECK(!error);
    return record.label;
  };
  CHECK(label("3", true, true) == 3U);
  CHECK(record.kept == R"(,"label":3)");
  CHECK(label("0", true, false) == 0U);
  CHECK(record.kept.empty());
  CHECK(label("true", true, false) == 1U);
  CHECK(label("false", true, false) == 0U);
  for (const auto* other : {"-1", "1.0", "1e2", "4294967296", "null", "\"1\"", "[1]", "{\"label\":1}", "1e999"}) {
    CAPTURE(other);
    CHECK(label(other, true, false) == std::nullopt);
    CHECK(record.labelled);
  }
  CHECK(label("3", false, true) == std::nullopt);
  CHECK(!record.labelled);
}
