// The table of targets, and how one is chosen.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"

namespace kime::test {
namespace {

std::vector<std::string> supported() {
  std::vector<std::string> names;
  for (const kernels::Table* table : kernels::tables()) {
    names.emplace_back(table->target);
  }
  return names;
}

// The test of the choice below in a process of its own, since a process chooses once.
int run_self(const std::string& target) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  REQUIRE(length > 0);
  path[length] = '\0';
  return std::system(("KIME_CPU_TARGET='" + target + "' '" + path + "' 'table: the one in use' >/dev/null 2>&1").c_str());
}

}  // namespace

TEST_CASE("table: compiled targets, best first, of which this CPU runs some", "[table]") {
  const std::vector<std::string> compiled(kernels::compiled_targets().begin(), kernels::compiled_targets().end());
  REQUIRE(!compiled.empty());
  CHECK(compiled.back() == "scalar");
#if defined(__x86_64__)
  CHECK(compiled == std::vector<std::string>{"amx", "avx512_dot", "avx512", "avx2_vnni", "avx2", "scalar"});
#endif
  const std::vector<std::string> runs = supported();
  REQUIRE(!runs.empty());
  CHECK(runs.back() == "scalar");
  // In the same order.
  auto at = compiled.begin();
  for (const std::string& name : runs) {
    at = std::find(at, compiled.end(), name);
    REQUIRE(at != compiled.end());
    ++at;
  }
#if defined(__x86_64__) && defined(__GNUC__)
  CHECK(std::count(runs.begin(), runs.end(), "avx2") == ((__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) ? 1 : 0));
  CHECK(std::count(runs.begin(), runs.end(), "avx512") ==
        (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") ? 1 : 0));
#endif
}

TEST_CASE("table: the one in use", "[table]") {
  const std::vector<std::string> runs = supported();
  const char* wanted = std::getenv("KIME_CPU_TARGET");
  const bool has = wanted != nullptr && std::count(runs.begin(), runs.end(), wanted) == 1;
  CHECK(kernels::table().target == (has ? std::string(wanted) : runs.front()));
  CHECK(&kernels::table() == &kernels::table());
}

TEST_CASE("table: the environment names one", "[table]") {
  for (const std::string& name : supported()) {
    CHECK(run_self(name) == 0);
  }
  CHECK(run_self("no-such-target") == 0);
  CHECK(run_self("") == 0);
}

TEST_CASE("table: every target counts the operations of its peak", "[table]") {
  for (const kernels::Table* table : kernels::tables()) {
    float sink = 0;
    const double one = table->fma_peak(1, &sink);
    CHECK(one > 0);
    CHECK(table->fma_peak(50, &sink) == 50 * one);
    // x = x / 2 + 1 in every lane has come to 2.
    CHECK(sink == static_cast<float>(one));
  }
}

}  // namespace kime::test
