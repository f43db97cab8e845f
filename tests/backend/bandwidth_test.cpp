#include "kime/backend/cpu/bandwidth.h"

#include <catch2/catch.hpp>

namespace kime::cpu {
namespace {

constexpr std::uint64_t kMebi = 1U << 20U;

TEST_CASE("the memory to read is twice the last cache, where there is room") {
  CHECK(bandwidth_buffer(32 * kMebi, 64 * 1024 * kMebi) == 256 * kMebi);
  CHECK(bandwidth_buffer(256 * kMebi, 64 * 1024 * kMebi) == 512 * kMebi);
  CHECK(bandwidth_buffer(4096 * kMebi, 64 * 1024 * kMebi) == 1024 * kMebi);
  CHECK(bandwidth_buffer(256 * kMebi, 1200 * kMebi) == 300 * kMebi);
  CHECK(bandwidth_buffer(0, 0) == 256 * kMebi);
}

TEST_CASE("bandwidth is measured on any number of threads, at least twice") {
  for (const std::size_t threads : {1U, 2U, 3U}) {
    const auto found = read_bandwidth(threads, 3 * kMebi, std::chrono::milliseconds(1));
    REQUIRE(found);
    CHECK(found->bytes_per_second > 0);
    CHECK(found->passes >= 2);
    CHECK(found->bytes == 3 * kMebi);
  }
}

}  // namespace
}  // namespace kime::cpu
