// `ucudnn jobs`.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

// The page of the jobs "0" to "2499" that the coordinator would answer with.
Result<v1::ListJobsResponse> PageOfJobs(const v1::ListRequest& request) {
  constexpr int kJobs = 2500;
  const int first =
      request.after().empty() ? 0 : std::stoi(request.after()) + 1;
  v1::ListJobsResponse page;
  for (int i = first; i < kJobs && page.jobs_size() < request.limit(); ++i) {
    page.add_jobs()->set_id(std::to_string(i));
  }
  return page;
}

TEST(JobsCliTest, ListsTheJobsOfAllPages) {
  ScriptedCoordinator coordinator;
  coordinator.list_jobs = PageOfJobs;
  const test::Finished listed =
      test::Run({test::ProgramPath("ucudnn"), "jobs", "--coordinator",
                 coordinator.address(), "-o", "json"});
  ASSERT_EQ(listed.status, 0) << listed.err;
  const auto jobs = nlohmann::json::parse(listed.out);
  ASSERT_EQ(jobs.size(), 2500U);
  EXPECT_EQ(jobs.front()["id"], "0");
  EXPECT_EQ(jobs.back()["id"], "2499");
  EXPECT_EQ(coordinator.calls().size(), 3U);
}

}  // namespace
}  // namespace ucudnn
