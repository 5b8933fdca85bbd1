// `ucudnn plan` while its coordinator shuts down, and when it is interrupted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>

#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

Result<v1::MeasureProgress> AllMeasured(const v1::MeasureRequest&) {
  v1::MeasureProgress progress;
  progress.set_total(1);
  progress.set_done(1);
  return progress;
}

Result<v1::Plan> AnyPlan(const v1::PlanRequest&) {
  v1::Plan plan;
  plan.set_id(7);
  return plan;
}

class StoppingCliTest : public ::testing::Test {
 protected:
  // Blocks a handler of `first_` until Release.
  template <class Request, class Response>
  auto Work() {
    return [this](const Request&) -> Result<Response> {
      began_.set_value();
      released_.wait();
      return Response();
    };
  }
  void Release() { release_.set_value(); }

  test::Process Plan(const std::string& coordinators) const {
    return test::Process(
        {test::ProgramPath("ucudnn"), "plan", "--coordinator", coordinators,
         "--network", "n", "--batch", "8", "--workspace-limit", "1MiB",
         "--device-kind", "K/1u/1GiB/k-1"},
        folder_ / "log");
  }
  std::string Log() const { return test::FileText(folder_ / "log"); }

  test::TemporaryFolder folder_;
  std::promise<void> began_;
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  ScriptedCoordinator first_;
};

TEST_F(StoppingCliTest, ContinuesAtAnotherCoordinatorWhenItsOwnShutsDown) {
  first_.shutting_down = true;
  ScriptedCoordinator second;
  second.measure = AllMeasured;
  second.create_plan = AnyPlan;
  EXPECT_EQ(Plan(first_.address() + "," + second.address()).Wait(), 0) << Log();
}

TEST_F(StoppingCliTest, LeavesTheMeasurementsToTheCoordinatorOnCtrlC) {
  first_.measure = Work<v1::MeasureRequest, v1::MeasureProgress>();
  test::Process plan = Plan(first_.address());
  began_.get_future().wait();
  plan.Signal(SIGINT);
  EXPECT_EQ(plan.Wait(), 128 + SIGINT);
  EXPECT_THAT(Log(), HasSubstr("stopped while waiting for the coordinator; "
                               "the requested measurements continue"));
  Release();
}

TEST_F(StoppingCliTest, StopsOnCtrlCWhileItsPlanIsMade) {
  first_.measure = AllMeasured;
  first_.create_plan = Work<v1::PlanRequest, v1::Plan>();
  test::Process plan = Plan(first_.address());
  began_.get_future().wait();
  plan.Signal(SIGTERM);
  EXPECT_EQ(plan.Wait(), 128 + SIGTERM);
  EXPECT_THAT(Log(), HasSubstr("stopped while waiting for the coordinator; if "
                               "the coordinator has begun the plan"));
  Release();
}

// A call that is abandoned and repeated runs twice at once in the coordinator.
TEST_F(StoppingCliTest, GivesTheCoordinatorTimeForLongWork) {
  first_.measure = AllMeasured;
  first_.create_plan = AnyPlan;
  EXPECT_EQ(Plan(first_.address()).Wait(), 0) << Log();
  EXPECT_GT(first_.Allowed("Measure"), std::chrono::minutes(1));
  EXPECT_GT(first_.Allowed("CreatePlan"), std::chrono::minutes(1));
}

}  // namespace
}  // namespace ucudnn
