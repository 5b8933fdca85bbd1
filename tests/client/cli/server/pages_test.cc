// Lists of `ucudnn` that are longer than a page.

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

constexpr int kEntries = 2500;

// The id of the first entry on the requested page; ids count from 1.
int FirstOf(const v1::ListRequest& request) {
  return request.after().empty() ? 1 : std::stoi(request.after()) + 1;
}

nlohmann::json List(const std::string& command,
                    const ScriptedCoordinator& coordinator,
                    const std::vector<std::string>& options = {}) {
  std::vector<std::string> line = {
      test::ProgramPath("ucudnn"), command, "--coordinator",
      coordinator.address(),       "-o",    "json"};
  line.insert(line.end(), options.begin(), options.end());
  const test::Finished listed = test::Run(line);
  EXPECT_EQ(listed.status, 0) << listed.err;
  return nlohmann::json::parse(listed.out, nullptr, false);
}

TEST(PagesCliTest, ListsTheJobsOfAllPages) {
  ScriptedCoordinator coordinator;
  coordinator.list_jobs =
      [](const v1::ListRequest& request) -> Result<v1::ListJobsResponse> {
    v1::ListJobsResponse page;
    for (int id = FirstOf(request);
         id <= kEntries && page.jobs_size() < request.limit(); ++id) {
      page.add_jobs()->set_id(std::to_string(id));
    }
    return page;
  };
  const auto jobs = List("jobs", coordinator);
  ASSERT_EQ(jobs.size(), std::size_t{kEntries});
  EXPECT_EQ(jobs.front()["id"], "1");
  EXPECT_EQ(jobs.back()["id"], "2500");
  EXPECT_EQ(coordinator.calls().size(), 4U);  // the last page is empty
}

TEST(PagesCliTest, ListsThePlansOfAllPages) {
  ScriptedCoordinator coordinator;
  coordinator.list_plans =
      [](const v1::ListRequest& request) -> Result<v1::ListPlansResponse> {
    v1::ListPlansResponse page;
    for (int id = FirstOf(request);
         id <= kEntries && page.plans_size() < request.limit(); ++id) {
      page.add_plans()->set_id(id);
    }
    return page;
  };
  const auto plans = List("plans", coordinator);
  ASSERT_EQ(plans.size(), std::size_t{kEntries});
  EXPECT_EQ(plans.back()["id"], kEntries);
}

TEST(PagesCliTest, ListsSoManyAfterAnEntry) {
  ScriptedCoordinator coordinator;
  std::atomic<int> asked = 0;
  coordinator.list_plans =
      [&](const v1::ListRequest& request) -> Result<v1::ListPlansResponse> {
    asked += request.limit();
    v1::ListPlansResponse page;
    for (int id = FirstOf(request);
         id <= kEntries && page.plans_size() < request.limit(); ++id) {
      page.add_plans()->set_id(id);
    }
    return page;
  };
  const auto plans =
      List("plans", coordinator, {"--limit", "1200", "--after", "7"});
  ASSERT_EQ(plans.size(), 1200U);
  EXPECT_EQ(plans.front()["id"], 8);
  EXPECT_EQ(plans.back()["id"], 1207);
  EXPECT_EQ(asked, 1200);
  EXPECT_EQ(coordinator.calls().size(), 2U);
}

}  // namespace
}  // namespace ucudnn
