#include "base/service/host.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>
#include <string>
#include <thread>

#include "base/files/file.h"
#include "base/service/cgroup.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using Files = std::map<std::string, std::string>;

CgroupLimits LimitsIn(const Files& files) {
  const test::TemporaryFolder root;
  for (const auto& [name, text] : files) {
    EXPECT_TRUE(ReplaceFile(root / name, text));
  }
  return ReadCgroupLimits(root.path());
}

// A group of version 2 in `cgroup`, whose hierarchy is mounted from `begin` on.
Files SecondVersion(const std::string& cgroup, const std::string& begin) {
  return {{"proc/self/cgroup", "0::" + cgroup + "\n"},
          {"proc/self/mountinfo",
           "22 1 0:20 / /proc rw - proc proc rw\n"
           "30 23 0:26 " +
               begin + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 none rw\n"}};
}

TEST(HostTest, KnowsFullAndShortNamesOfOneMachine) {
  EXPECT_TRUE(SameHost("n1", "n1"));
  EXPECT_TRUE(SameHost("n1", "N1.cluster.example"));
  EXPECT_TRUE(SameHost("n1.cluster.example", "n1"));
  EXPECT_FALSE(SameHost("n1", "n10.cluster.example"));
  EXPECT_FALSE(SameHost("n1.a.example", "n1.b.example"));
  EXPECT_FALSE(SameHost("", "n1"));
  EXPECT_FALSE(SameHost("", ""));
}

TEST(HostTest, UsesTheCoresThatTasksetLeaves) {
  int cores = 0;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof(one), &one);
    cores = UsableCores();
  }).join();
  EXPECT_EQ(cores, 1);
}

TEST(CgroupTest, HasNoLimitsWhereNothingTells) {
  EXPECT_FALSE(LimitsIn({}).cpus);
  EXPECT_FALSE(LimitsIn({}).memory);
  Files files = SecondVersion("/job", "/");
  files["sys/fs/cgroup/job/cpu.max"] = "max 100000\n";
  files["sys/fs/cgroup/job/memory.max"] = "max\n";
  files["sys/fs/cgroup/job/memory.current"] = "1000\n";
  EXPECT_FALSE(LimitsIn(files).cpus);
  EXPECT_FALSE(LimitsIn(files).memory);
}

TEST(CgroupTest, TakesTheTightestOfAGroupAndThoseAboveIt) {
  for (const auto& [cgroup, begin] :
       {std::pair{"/slurm/job/step", "/"}, {"/pod/slurm/job/step", "/pod"}}) {
    Files files = SecondVersion(cgroup, begin);
    files["sys/fs/cgroup/slurm/job/step/cpu.max"] = "max 100000\n";
    files["sys/fs/cgroup/slurm/job/cpu.max"] = "250000 100000\n";
    files["sys/fs/cgroup/slurm/cpu.max"] = "800000 100000\n";
    files["sys/fs/cgroup/slurm/job/memory.max"] = "3000\n";
    files["sys/fs/cgroup/slurm/job/memory.current"] = "2000\n";
    files["sys/fs/cgroup/slurm/job/memory.stat"] =
        "anon 5\ninactive_file 500\n";
    files["sys/fs/cgroup/slurm/memory.max"] = "6000\n";
    files["sys/fs/cgroup/slurm/memory.current"] = "2000\n";
    const CgroupLimits limits = LimitsIn(files);
    EXPECT_EQ(limits.cpus.value_or(0), 2.5);
    EXPECT_EQ(limits.memory.value_or(Bytes()), Bytes(1500));
  }
}

// It sees its own group as the root, or by its name outside.
TEST(CgroupTest, TakesAContainersLimits) {
  for (const auto& [cgroup, begin] :
       {std::pair{"/", "/"}, {"/docker/abc", "/docker/other"}}) {
    Files files = SecondVersion(cgroup, begin);
    files["sys/fs/cgroup/cpu.max"] = "50000 100000\n";
    files["sys/fs/cgroup/memory.max"] = "2000\n";
    files["sys/fs/cgroup/memory.current"] = "2500\n";
    EXPECT_EQ(LimitsIn(files).cpus.value_or(0), 0.5);
    EXPECT_EQ(LimitsIn(files).memory.value_or(Bytes(1)), Bytes());
  }
}

TEST(CgroupTest, TakesLimitsOfTheFirstVersion) {
  const Files files = {
      {"proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/job\n0::/\n"},
      {"proc/self/mountinfo",
       "30 23 0:26 / /sys/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
       "31 23 0:27 / /sys/memory rw - cgroup cgroup rw,memory\n"},
      {"sys/cpu/other/cpu.cfs_quota_us", "150000\n"},
      {"sys/cpu/other/cpu.cfs_period_us", "100000\n"},
      {"sys/cpu/cpu.cfs_quota_us", "-1\n"},
      {"sys/cpu/cpu.cfs_period_us", "100000\n"},
      {"sys/memory/job/memory.limit_in_bytes", "2000\n"},
      {"sys/memory/job/memory.usage_in_bytes", "1800\n"},
      {"sys/memory/job/memory.stat", "cache 1\ntotal_inactive_file 300\n"},
      {"sys/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"sys/memory/memory.usage_in_bytes", "1800\n"}};
  EXPECT_EQ(LimitsIn(files).cpus.value_or(0), 1.5);
  EXPECT_EQ(LimitsIn(files).memory.value_or(Bytes()), Bytes(500));
}

}  // namespace
}  // namespace ucudnn
