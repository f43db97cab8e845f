// Weights on huge pages: at first touch as long as these come fast, later within a run's share, and what they hold stays.
#include "kime/backend/cpu/huge_pages.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <string>

#include "kime/base/memory.h"

namespace kime::test {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;
using cpu::Seconds;

bool system_has_huge_pages() {
  std::string word;
  return static_cast<bool>(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled") >> word);
}

Pages filled(std::size_t bytes) {
  auto pages = Pages::make(bytes);
  REQUIRE(pages);
  std::fill_n(pages->data(), bytes, std::byte{7});
  return *std::move(pages);
}

bool holds_sevens(const Pages& pages) {
  return std::all_of(pages.data(), pages.data() + pages.size(), [](std::byte byte) { return byte == std::byte{7}; });
}

}  // namespace

TEST_CASE("huge pages: nothing is done in a short run, all in a long one, and every byte stays", "[backend]") {
  const Pages pages = filled(5 * kHuge + 12345);
  cpu::HugePages huge;
  huge.add(pages.data(), pages.size(), Seconds(0.2));  // 5 pages, a second in all
  huge.after_run(Seconds(5));
  CHECK(huge.made() == 0);
  huge.after_run(Seconds(7));  // still patient: a second was not lost in the 5 that had passed before it
  CHECK(huge.made() == 0);
  huge.after_run(Seconds(1000));
  CHECK(huge.made() <= 5);
  CHECK(holds_sevens(pages));
  if (!system_has_huge_pages() || huge.made() == 0) {
    WARN("this system does not make huge pages on demand");
    return;
  }
  const std::size_t all = huge.made();
  huge.after_run(Seconds(1000));
  CHECK(huge.made() == all);
}

TEST_CASE("huge pages: a run pays for at most its share, then the next goes on", "[backend]") {
  const Pages pages = filled(6 * kHuge);
  cpu::HugePages huge;
  huge.add(pages.data(), pages.size(), Seconds(0.1));
  huge.after_run(Seconds(5));
  std::size_t before = huge.made();
  for (int i = 0; i < 8; ++i) {
    huge.after_run(Seconds(1e-9));
    CHECK(huge.made() <= before + 1);
    before = huge.made();
  }
  CHECK(holds_sevens(pages));
}

TEST_CASE("huge pages: a benchmark has them all after its first run", "[backend]") {
  const Pages pages = filled(3 * kHuge);
  cpu::HugePages patient;
  patient.add(pages.data(), pages.size(), Seconds(1000));
  patient.after_run(Seconds(1));
  CHECK(patient.made() == 0);
  cpu::HugePages huge(true);
  huge.add(pages.data(), pages.size(), Seconds(1000));
  huge.after_run(Seconds(1e-9));
  const std::size_t made = huge.made();
  huge.after_run(Seconds(1e-9));
  CHECK(huge.made() == made);
  CHECK(holds_sevens(pages));
}

TEST_CASE("huge pages: the first touch takes all that lie whole in the memory, or stops at slow ones", "[backend]") {
  constexpr std::size_t kPages = 40;
  const cpu::Crew crew(2);
  const auto all = Pages::make(kPages * kHuge + kHuge / 2);
  REQUIRE(all);
  const auto touched = touch_huge_pages(crew, 2, all->data(), all->size(), Seconds(1000));
  CHECK(touched.pages >= kPages - 1);
  CHECK(touched.pages <= kPages);
  CHECK(touched.each > Seconds(0));
  CHECK(std::all_of(all->data(), all->data() + all->size(), [](std::byte byte) { return byte == std::byte{0}; }));

  const auto some = Pages::make(kPages * kHuge);
  REQUIRE(some);
  CHECK(touch_huge_pages(crew, 2, some->data(), some->size(), Seconds(0)).pages <= 8 + 1);  // one that was under way
  CHECK(touch_huge_pages(crew, 2, some->data(), kHuge - 1).pages == 0);
}

TEST_CASE("huge pages: small memory, more of it than is kept, and memory that is gone do no harm", "[backend]") {
  cpu::HugePages huge;
  std::byte small[64] = {};
  huge.add(small, sizeof(small), Seconds(1));
  huge.after_run(Seconds(100));
  {
    const Pages pages = filled(3 * kHuge);
    for (int i = 0; i < 40; ++i) {
      huge.add(pages.data(), pages.size(), Seconds(0));
    }
  }
  huge.after_run(Seconds(100));
  huge.after_run(Seconds(100));
  cpu::ask_for_huge_pages(small, sizeof(small), true);
}

}  // namespace kime::test
