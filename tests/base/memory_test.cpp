#include "kime/base/memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

using kime::Pages;

TEST_CASE("pages are zero, aligned and writable") {
  auto pages = Pages::make(10000);
  REQUIRE(pages);
  REQUIRE(pages->size() == 10000);
  CHECK(reinterpret_cast<std::uintptr_t>(pages->data()) % 4096 == 0);
  CHECK(std::all_of(pages->data(), pages->data() + 10000, [](std::byte b) { return b == std::byte{0}; }));
  CHECK(pages->floats().size() == 2500);
  pages->floats().back() = 1.5F;
  CHECK(pages->floats()[2499] == 1.5F);
}

TEST_CASE("no bytes make an empty block") {
  auto pages = Pages::make(0);
  REQUIRE(pages);
  CHECK(pages->size() == 0);
  CHECK(pages->data() == nullptr);
}

TEST_CASE("a block moves with its memory") {
  auto first = Pages::make(4096);
  REQUIRE(first);
  std::byte* data = first->data();
  Pages second = *std::move(first);
  CHECK(second.data() == data);
  CHECK(first->data() == nullptr);
  Pages third;
  third = std::move(second);
  CHECK(third.data() == data);
  CHECK(third.size() == 4096);
}

TEST_CASE("a block costs no memory until it is touched, and an impossible one is an error") {
  CHECK(Pages::make(std::size_t{1} << 40));
  const auto pages = Pages::make(std::numeric_limits<std::size_t>::max() / 2);
  REQUIRE_FALSE(pages);
  CHECK(pages.error().kind() == kime::ErrorKind::device);
  CHECK(pages.error().message().find("9223372036854775807 bytes") != std::string::npos);
}
