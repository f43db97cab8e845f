#include "kime/base/cpu_limits.h"

#include <sched.h>

#include <catch2/catch.hpp>

#include "tests/support/fake_root.h"

namespace {

using kime::test::FakeRoot;

}  // namespace

TEST_CASE("quotas are parsed") {
  CHECK(kime::parse_cpu_max("150000 100000\n") == 1.5);
  CHECK_FALSE(kime::parse_cpu_max("max 100000\n"));
  CHECK_FALSE(kime::parse_cpu_max(""));
  CHECK_FALSE(kime::parse_cpu_max("100000"));
  CHECK_FALSE(kime::parse_cpu_max("100000 0"));
  CHECK_FALSE(kime::parse_cpu_max("1e5 100000"));
  CHECK(kime::parse_cfs_quota("50000\n", "100000\n") == 0.5);
  CHECK_FALSE(kime::parse_cfs_quota("-1\n", "100000\n"));
  CHECK_FALSE(kime::parse_cfs_quota("50000\n", ""));
}

TEST_CASE("usable CPUs are the smaller of mask and quota, rounded up, at least one") {
  using kime::CpuLimits;
  CHECK(CpuLimits{8, std::nullopt}.usable() == 8);
  CHECK(CpuLimits{8, 2.0}.usable() == 2);
  CHECK(CpuLimits{8, 2.1}.usable() == 3);
  CHECK(CpuLimits{8, 0.1}.usable() == 1);
  CHECK(CpuLimits{2, 16.0}.usable() == 2);
  CHECK(CpuLimits{2, 1e300}.usable() == 2);
}

TEST_CASE("the tightest quota on the way up counts, v2") {
  const FakeRoot root;
  CHECK_FALSE(kime::cgroup_cpu_quota(root.path()));
  root.write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  CHECK_FALSE(kime::cgroup_cpu_quota(root.path()));
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  CHECK_FALSE(kime::cgroup_cpu_quota(root.path()));
  root.write("sys/fs/cgroup/user.slice/cpu.max", "300000 100000\n");
  CHECK(kime::cgroup_cpu_quota(root.path()) == 3.0);
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "450000 100000\n");
  CHECK(kime::cgroup_cpu_quota(root.path()) == 3.0);
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "150000 100000\n");
  CHECK(kime::cgroup_cpu_quota(root.path()) == 1.5);
}

TEST_CASE("in a container the mount's top is the cgroup") {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(kime::cgroup_cpu_quota(root.path()) == 2.0);
}

TEST_CASE("the quota of v1 is found under the controllers' names") {
  const FakeRoot root;
  root.write("proc/self/cgroup", "12:cpuset:/a\n4:cpu,cpuacct:/docker/0123\n0::/\nnonsense\n");
  root.write("sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "1\n");
  root.write("sys/fs/cgroup/cpuset/a/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(kime::cgroup_cpu_quota(root.path()));
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");  // The container's own, at the mount's top.
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(kime::cgroup_cpu_quota(root.path()) == 2.5);
  root.write("sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "50000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_period_us", "100000\n");
  CHECK(kime::cgroup_cpu_quota(root.path()) == 0.5);
}

TEST_CASE("the affinity mask of this process is counted") {
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  const auto limits = kime::cpu_limits();
  CHECK(limits.affinity == static_cast<std::size_t>(CPU_COUNT(&mask)));
  CHECK(limits.usable() >= 1);
  CHECK(limits.usable() <= limits.affinity);
}
