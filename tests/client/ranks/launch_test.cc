#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "client/ranks/ranks.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Status CheckedWith(const std::map<std::string, std::string>& variables,
                   int world = 1) {
  return CheckLaunch(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
      },
      world);
}

TEST(LaunchTest, NamesTasksThatDoNotKnowEachOther) {
  const Status alone =
      CheckedWith({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}});
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(alone.error().message,
              AllOf(HasSubstr("2 tasks"), HasSubstr("--mpi=pmix")));
  // Started with PMI, by an MPI that cannot use it.
  EXPECT_FALSE(
      CheckedWith({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMI_SIZE", "4"}}));
}

TEST(LaunchTest, TakesOneRankWhereOneIsMeant) {
  EXPECT_TRUE(CheckedWith({}));
  EXPECT_TRUE(CheckedWith({{"SLURM_STEP_NUM_TASKS", "1"}}));
  // A batch script, or a shell of salloc.
  EXPECT_TRUE(CheckedWith({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}));
  EXPECT_TRUE(CheckedWith({{"SLURM_STEP_NUM_TASKS", "2"}}, 2));
  // `mpirun -np 1` and `mpiexec -n 1` in a step of several.
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    EXPECT_TRUE(CheckedWith({{"SLURM_STEP_NUM_TASKS", "2"}, {size, "1"}}));
  }
}

}  // namespace
}  // namespace ucudnn
