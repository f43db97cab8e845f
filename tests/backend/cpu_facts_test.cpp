#include "kime/backend/cpu/cpu_facts.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "kime/base/cgroup.h"
#include "tests/support/fake_root.h"

namespace {

using kime::test::FakeRoot;

using Features = std::vector<std::string>;

constexpr const char* kX86 =
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\nflags\t\t: fpu sse2 fma avx avx2 avx512f "
    "avx_vnni avx512_bf16 avx512_vnni amx_bf16 avx512_fp16 amx_tile amx_int8\nvmx flags\t: vnmi sve\n\nprocessor\t: 1\nmodel name\t: "
    "other\n";
constexpr const char* kArm =
    "processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd evtstrm aes sve i8mm bf16 dgh\nCPU implementer\t: 0x41\n"
    "CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\n";

}  // namespace

TEST_CASE("a CPU's model and features are those of the first processor") {
  using kime::cpu::cpu_features;
  using kime::cpu::cpu_model;
  CHECK(cpu_model(kX86) == "Intel(R) Xeon(R) Platinum 8480+");
  CHECK(cpu_features(kX86) ==
        Features{"avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"});
  CHECK(cpu_model(kArm) == "implementer 0x41, part 0xd40");
  CHECK(cpu_features(kArm) == Features{"asimd", "bf16", "i8mm", "sve"});
  CHECK(cpu_features("flags : avx avx512fp16 avx2x\n").empty());
  CHECK(cpu_features("flags : avx2") == Features{"avx2"});
  CHECK(cpu_model("").empty());
  CHECK(cpu_model("CPU part : 0x1\n").empty());
  CHECK(cpu_features("nonsense").empty());
}

TEST_CASE("memory totals and cache sizes are parsed") {
  using kime::cpu::memory_total;
  using kime::cpu::parse_cache_size;
  CHECK(memory_total("MemTotal:       24683656 kB\nMemFree:        23957992 kB\n") == 24683656ULL * 1024);
  CHECK(memory_total("\nNode 1 MemTotal:       14378784 kB\nNode 1 MemFree: 1 kB\n") == 14378784ULL * 1024);
  CHECK(kime::cpu::memory_used("MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 30 kB\n") == 70U * 1024);
  CHECK(kime::cpu::memory_used("Node 1 MemTotal: 100 kB\nNode 1 MemFree: 10 kB\n") == 90U * 1024);
  CHECK_FALSE(kime::cpu::memory_used("MemTotal: 100 kB\n"));
  CHECK_FALSE(kime::cpu::memory_used("MemTotal: 100 kB\nMemFree: 101 kB\n"));
  CHECK_FALSE(memory_total(""));
  CHECK_FALSE(memory_total("MemTotal: many kB\n"));
  CHECK_FALSE(memory_total("MemTotal: 7\n"));
  CHECK_FALSE(memory_total("MemTotal: 9223372036854775807 kB\n"));
  CHECK(parse_cache_size("48K\n") == 48ULL * 1024);
  CHECK(parse_cache_size("2M") == 2ULL * 1024 * 1024);
  CHECK(parse_cache_size("512") == 512ULL);
  CHECK_FALSE(parse_cache_size("K"));
  CHECK_FALSE(parse_cache_size(""));
  CHECK_FALSE(parse_cache_size("-1K"));
}

TEST_CASE("the cgroup's folders are found on the way up, v2 and v1") {
  const FakeRoot root;
  CHECK(kime::cgroup_folders(root.path(), "memory").empty());
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/a/b\nnonsense\n0::/c\n");
  const std::string mount = root.path() + "/sys/fs/cgroup";
  CHECK(kime::cgroup_folders(root.path(), "memory") ==
        std::vector<std::string>{mount + "/memory/a/b", mount + "/memory/a", mount + "/memory", mount + "/memory/a/b", mount + "/memory/a",
                                 mount + "/memory", mount + "/c", mount, mount + "/unified/c", mount + "/unified"});
}

TEST_CASE("the tightest memory limit on the way up counts") {
  using kime::cpu::cgroup_memory_limit;
  const FakeRoot root;
  CHECK_FALSE(cgroup_memory_limit(root.path()));
  root.write("proc/self/cgroup", "3:memory:/job\n0::/a/b\n");
  root.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  CHECK_FALSE(cgroup_memory_limit(root.path()));
  root.write("sys/fs/cgroup/a/memory.max", "3000000\n");
  CHECK(cgroup_memory_limit(root.path()) == 3000000ULL);
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(cgroup_memory_limit(root.path()) == 3000000ULL);
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  CHECK(cgroup_memory_limit(root.path()) == 2000000ULL);
}

TEST_CASE("facts come together, as far as the system tells them") {
  using kime::cpu::node_memory_bytes;
  using kime::cpu::read_cpu_facts;
  const FakeRoot root;
  auto facts = read_cpu_facts(root.path());
  CHECK(facts.model.empty());
  CHECK(facts.features.empty());
  CHECK(node_memory_bytes(root.path(), 0) == 0);
  CHECK(facts.l1d == 0);

  root.write("proc/cpuinfo", kArm);
  root.write("proc/meminfo", "MemTotal: 1000 kB\n");
  root.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 600 kB\n");
  const std::string caches = "sys/devices/system/cpu/cpu0/cache/index";
  int index = 0;
  for (const auto& [level, type, size] :
       {std::tuple{"1", "Data", "48K"}, {"1", "Instruction", "64K"}, {"2", "Unified", "2M"}, {"3", "Unified", "480M"}}) {
    const std::string folder = caches + std::to_string(index++);
    root.write(folder + "/level", level);
    root.write(folder + "/type", type);
    root.write(folder + "/size", size);
  }
  facts = read_cpu_facts(root.path());
  CHECK(facts.model == "implementer 0x41, part 0xd40");
  CHECK(facts.features.size() == 4);
  CHECK(node_memory_bytes(root.path(), -1) == 1000ULL * 1024);
  CHECK(facts.l1d == 48ULL * 1024);
  CHECK(facts.l2 == 2048ULL * 1024);
  CHECK(facts.l3 == 480ULL * 1024 * 1024);
  CHECK(node_memory_bytes(root.path(), 0) == 1000ULL * 1024);
  CHECK(node_memory_bytes(root.path(), 1) == 600ULL * 1024);
  CHECK(kime::cpu::node_memory_used("", -1) > 0);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "5000\n");
  CHECK(node_memory_bytes(root.path(), 1) == 5000);
}

TEST_CASE("this machine has facts") {
  const auto facts = kime::cpu::read_cpu_facts("");
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto memory = kime::cpu::node_memory_bytes("", -1);
  CHECK(memory > 0);
  CHECK(memory <= pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) * 101 / 100);
#if defined(__x86_64__)
  CHECK((__builtin_cpu_supports("avx2") != 0) == (std::find(facts.features.begin(), facts.features.end(), "avx2") != facts.features.end()));
#endif
}
