#include "client/session/plan_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files/file.h"
#include "proto/convert_plan.h"
#include "solver/version.h"
#include "tests/client/tiny_network.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

// A job whose coordinator is away, with a cache.
class PlanSearchTest : public ::testing::Test {
 protected:
  PlanSearchTest() {
    config_.request = TinyRequest(BatchSize(8), {"A", "B"});
    config_.network = TinyNetwork();
    config_.kernels =
        KernelsOf(config_.network, Precision::kFp32, Layout::kNchw);
    config_.cache_dir = folder_.path();
  }

  test::TemporaryFolder folder_;
  SessionConfig config_;
};

TEST_F(PlanSearchTest, LeavesPlansOfOtherSolversInTheCacheAlone) {
  PlanSearch search(config_);
  const std::string path = search.cache_path();
  ASSERT_TRUE(ReplaceFile(path, ToJsonText(TinyPlan(config_.request, {5, 3}))));
  const auto found = search.Next();
  ASSERT_TRUE(found && *found) << search.reason();
  EXPECT_EQ((*found)->source, PlanSource::kCache);

  const std::string solver = fmt::format("solver{}", kSolverVersion);
  std::string other = path;
  other.replace(path.find(solver), solver.size(),
                fmt::format("solver{}", kSolverVersion - 1));
  std::filesystem::rename(path, other);
  EXPECT_FALSE(PlanSearch(config_).Next().value());
}

}  // namespace
}  // namespace ucudnn
