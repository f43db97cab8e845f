// libFuzzer: no line crashes the parser, the short way comes to what the long one does, and what is written about it is one line of JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kime/io/json_text.h"
#include "kime/io/record_parser.h"
#include "kime/io/score_writer.h"
#include "tests/io/same_parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  if (line.find('\n') != std::string_view::npos) {
    return 0;  // A reader never gives one.
  }
  for (const bool keep : {false, true}) {
    kime::RecordParser parser({.vocab = 1000, .keep = keep, .labels = keep});
    kime::Record record;
    const auto error = parser.parse(line, record);
    kime::Record slowly;
    const auto slow_error = parser.parse_by_events(line, slowly);
    if (!kime::test::difference_of(record, error, slowly, slow_error).empty()) {
      std::abort();
    }
    std::string out;
    const kime::LineHead head{record.id, 1, "", record.kept};
    if (error) {
      append_error(out, head, *error);
    } else {
      append_scores(out, head, {}, kime::Emit::logits);
    }
    std::string tamed;
    kime::tame_numbers(out, tamed);
    if (!nlohmann::json::accept(tamed) || out.find('\n') != out.size() - 1) {
      std::abort();
    }
  }
  return 0;
}
