#include "kime/batch/batch.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <numeric>

using kime::Batch;
using kime::BatchBuffer;
using U32 = std::vector<std::uint32_t>;
using U8 = std::vector<std::uint8_t>;

namespace {

/// A batch that owns its arrays, right until a test breaks one of them: sequences of 3 and 2 tokens with 2 and 1 markers.
struct Parts {
  U32 ids{5, 6, 7, 8, 9};
  U32 cu{0, 3, 5};
  U32 markers{0, 2, 1};
  U32 mcu{0, 2, 3};
  U8 qtype{0, 2};

  [[nodiscard]] std::string problem(std::size_t vocab = 10, std::size_t types = 3) const {
    const auto status = Batch{ids, cu, markers, mcu, qtype}.check(vocab, types);
    if (status) {
      return "";
    }
    CHECK(status.error().kind() == kime::ErrorKind::batch);
    return status.error().message();
  }
};

}  // namespace

TEST_CASE("a right batch passes its check") {
  CHECK(Parts{}.problem().empty());
  CHECK(BatchBuffer().batch().check(10, 3));
  CHECK(BatchBuffer().batch().seqs() == 0);
  CHECK(BatchBuffer().batch().cu.size() == 1);
}

TEST_CASE("every problem of a batch has its message") {
  Parts p;
  SECTION("cu starts late") {
    p.cu[0] = 1;
    CHECK(p.problem() == "cu and mcu must start at 0");
  }
  SECTION("mcu starts late") {
    p.mcu[0] = 1;
    CHECK(p.problem() == "cu and mcu must start at 0");
  }
  SECTION("no offsets at all") {
    p.cu.clear();
    CHECK(p.problem() == "cu and mcu must start at 0");
  }
  SECTION("counts differ") {
    p.mcu = {0, 3};
    CHECK(p.problem() == "2 sequences but 1 mcu and 2 qtype");
  }
  SECTION("one type is missing") {
    p.qtype.pop_back();
    CHECK(p.problem() == "2 sequences but 2 mcu and 1 qtype");
  }
  SECTION("cu ends early") {
    p.cu[2] = 4;
    CHECK(p.problem() == "cu and mcu must end at the totals");
  }
  SECTION("mcu ends late") {
    p.mcu[2] = 4;
    CHECK(p.problem() == "cu and mcu must end at the totals");
  }
  SECTION("cu falls") {
    p.cu = {0, 4000000000U, 5};
    CHECK(p.problem() == "sequence 1 ends before it starts");
  }
  SECTION("mcu falls") {
    p.mcu = {0, 4000000000U, 3};
    CHECK(p.problem() == "sequence 1 ends before it starts");
  }
  SECTION("unknown type") {
    p.qtype[1] = 7;
    CHECK(p.problem() == "sequence 1 has type 7 of 3");
  }
  SECTION("marker past its sequence") {
    p.markers[2] = 2;
    CHECK(p.problem() == "marker 2 is past sequence 1 of 2 tokens");
  }
  SECTION("token past the vocabulary") {
    p.ids[4] = 10;
    CHECK(p.problem() == "token id 10 is past the vocabulary of 10");
  }
}

TEST_CASE("the first problem is named: sequence by sequence its type, then its markers, and token ids last") {
  Parts p;
  p.ids[0] = 99;
  p.markers[0] = 9;
  p.qtype[1] = 7;
  CHECK(p.problem() == "marker 9 is past sequence 0 of 3 tokens");
  p.qtype[0] = 5;
  CHECK(p.problem() == "sequence 0 has type 5 of 3");
  p.cu[1] = 6;
  CHECK(p.problem() == "sequence 1 ends before it starts");
  p.cu[2] = 9;
  CHECK(p.problem() == "cu and mcu must end at the totals");
  p.qtype.pop_back();
  CHECK(p.problem() == "2 sequences but 2 mcu and 1 qtype");
  p.mcu[0] = 1;
  CHECK(p.problem() == "cu and mcu must start at 0");
}

TEST_CASE("a sequence may have no tokens and no markers") {
  BatchBuffer buffer;
  REQUIRE(buffer.push({}, {}, 1));
  CHECK(buffer.batch().check(1, 3));
  CHECK(buffer.batch().seqs() == 1);
}

TEST_CASE("a buffer holds what was pushed") {
  CHECK(rc::check("push, view, clear, push again", [](const std::vector<U32>& sequences, const std::vector<U32>& markers) {
    BatchBuffer buffer;
    RC_ASSERT(static_cast<bool>(buffer.push(U32{1, 2}, U32{0}, 0)));
    buffer.clear();
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const U32 none;
      RC_ASSERT(static_cast<bool>(buffer.push(sequences[s], s < markers.size() ? markers[s] : none, static_cast<std::uint8_t>(s % 3))));
    }
    const Batch batch = buffer.batch();
    RC_ASSERT(batch.seqs() == sequences.size());
    RC_ASSERT(batch.cu.front() == 0U && batch.mcu.front() == 0U);
    RC_ASSERT(batch.mcu.size() == batch.cu.size() && batch.qtype.size() == batch.seqs());
    for (std::size_t s = 0; s < batch.seqs(); ++s) {
      const auto ids = batch.ids.subspan(batch.cu[s], batch.cu[s + 1] - batch.cu[s]);
      const auto mine = batch.markers.subspan(batch.mcu[s], batch.mcu[s + 1] - batch.mcu[s]);
      RC_ASSERT(std::equal(ids.begin(), ids.end(), sequences[s].begin(), sequences[s].end()));
      RC_ASSERT(mine.size() == (s < markers.size() ? markers[s].size() : 0));
      RC_ASSERT(batch.qtype[s] == s % 3);
    }
  }));
}

TEST_CASE("no arrays, however wrong, are read out of bounds by the check") {
  // Under the address sanitizer this is what it says; elsewhere it shows that what passes is consistent.
  CHECK(rc::check("check never reads past the arrays", [](const U32& ids, U32 cu, const U32& markers, U32 mcu, const U8& qtype) {
    const auto status = Batch{ids, cu, markers, mcu, qtype}.check(1000, 3);
    if (status) {
      RC_ASSERT(cu.size() == qtype.size() + 1);
      RC_ASSERT(std::is_sorted(cu.begin(), cu.end()) && cu.back() == ids.size());
      RC_ASSERT(std::is_sorted(mcu.begin(), mcu.end()) && mcu.back() == markers.size());
    }
  }));
}

TEST_CASE("a batch refuses more tokens or markers than 2^32 - 1, and stays as it was") {
  BatchBuffer buffer;
  REQUIRE(buffer.push(U32{1, 2, 3}, U32{0}, 0));
  // A span that is never read: it is refused by its size alone.
  const std::uint32_t one = 0;
  const std::span<const std::uint32_t> huge(&one, 0xFFFFFFFFU - 2);
  auto status = buffer.push(huge, {}, 0);
  REQUIRE_FALSE(status);
  CHECK(status.error().text() == "bad batch: a batch holds at most 4294967295 tokens");
  status = buffer.push({}, std::span<const std::uint32_t>(&one, 0xFFFFFFFFU), 0);
  REQUIRE_FALSE(status);
  CHECK(status.error().text() == "bad batch: a batch holds at most 4294967295 markers");
  CHECK(buffer.batch().seqs() == 1);
  CHECK(buffer.batch().ids.size() == 3);
  CHECK(buffer.batch().check(4, 3));
}
