#include "kime/base/float_text.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace {

template <class T>
std::string text(T value) {
  std::string out = "[";
  kime::append_float(out, value);
  return out.substr(1);
}

}  // namespace

TEST_CASE("floats are printed as fmt prints them") {
  CHECK(text(1.25F) == "1.25");
  CHECK(text(-0.5F) == "-0.5");
  CHECK(text(3.0F) == "3");
  CHECK(text(-0.0F) == "-0");
  CHECK(text(0.1F) == "0.1");
  CHECK(text(0.1) == "0.1");
  CHECK(text(static_cast<double>(0.1F)) == "0.10000000149011612");
  CHECK(text(1e-5F) == "1e-05");
  CHECK(text(16777216.0F) == "16777216");
  CHECK(text(-std::numeric_limits<double>::max()) == "-1.7976931348623157e+308");
  CHECK(text(-2.2250738585072014e-308) == "-2.2250738585072014e-308");
  CHECK(text(std::numeric_limits<float>::denorm_min()) == "1e-45");
}

TEST_CASE("the text of every float reads back to the same bits") {
  CHECK(rc::check("float32", [](std::uint32_t bits) {
    const auto value = std::bit_cast<float>(bits);
    RC_PRE(std::isfinite(value));
    RC_ASSERT(std::bit_cast<std::uint32_t>(std::strtof(text(value).c_str(), nullptr)) == bits);
    RC_ASSERT(text(value) == fmt::format("{}", value));
  }));
  CHECK(rc::check("float64", [](std::uint64_t bits) {
    const auto value = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(value));
    RC_ASSERT(std::bit_cast<std::uint64_t>(std::strtod(text(value).c_str(), nullptr)) == bits);
    RC_ASSERT(text(value) == fmt::format("{}", value));
  }));
}
