#include "kime/io/journal.h"

#include <catch2/catch.hpp>
#include <string>

#include "kime/io/digest.h"

using kime::differences;
using kime::Journal;
using kime::parse_journal;
using kime::to_text;

namespace {

Journal some_journal() {
  return {.kime = "1.2.3",
          .replaces = true,
          .job = {{"precision", "f32"}, {"input 1 name", "\"a\\\"\n\""}, {"inputs", "1"}},
          .state = {.complete = true,
                    .output = 1ULL << 60U,
                    .input = {.file = 3, .place = {(1ULL << 63U) + 1, 77, true}},
                    .scored = 70,
                    .failed = 7,
                    .tokens = 12345},
          .tail = "abc"};
}

std::string journal_refusal(std::string_view text) {
  const auto parsed = parse_journal(text, "out.journal");
  return parsed ? "" : parsed.error().text();
}

}  // namespace

TEST_CASE("a journal reads back as it was") {
  const Journal journal = some_journal();
  const auto read = parse_journal(to_text(journal), "x");
  REQUIRE(read);
  CHECK(read->kime == journal.kime);
  CHECK(read->replaces == journal.replaces);
  CHECK(read->job == journal.job);
  CHECK(read->state == journal.state);
  CHECK(read->tail == journal.tail);
}

TEST_CASE("each cut and each changed byte of a journal is noticed") {
  const std::string text = to_text(some_journal());
  for (std::size_t i = 0; i < text.size(); ++i) {
    CHECK(journal_refusal(std::string_view(text).substr(0, i)).starts_with("out.journal: is "));
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK(journal_refusal(changed).starts_with("out.journal: is "));
  }
}

TEST_CASE("a journal of another format is named, also where its digest is another") {
  CHECK(journal_refusal("{\"kime_journal\":2,\"other\":[]}\nwhatever\n") ==
        "out.journal: is a journal of format 2; this kime reads format 1, so that the kime that began the job must end it");
  CHECK(journal_refusal("{\"kime_journal\":x}").find("no journal of kime's, or damaged") != std::string::npos);
}

TEST_CASE("a journal whose digest is right and whose fields are not") {
  const std::string text = "{\"kime_journal\":1,\"kime\":7}\n";
  CHECK(journal_refusal(text + kime::digest_of(text) + "\n").find("out.journal: is no journal of kime's: ") == 0);
}

TEST_CASE("differences name each field with both values") {
  const kime::JobFields was{{"a", "1"}, {"b", "2"}, {"c", "3"}};
  CHECK(differences(was, was).empty());
  CHECK(differences(was, {{"c", "3"}, {"a", "1"}, {"b", "2"}}).empty());
  CHECK(differences(was, {{"a", "1"}, {"b", "x"}, {"d", "4"}}) == "  b: was 2, is x\n  d: was nothing, is 4\n  c: was 3, is nothing\n");
}

TEST_CASE("digests are the published XXH3 ones") {
  CHECK(kime::digest_of("") == "99aa06d3014798d86001c324468d497f");  // the 128-bit hash of nothing, seed 0
}
