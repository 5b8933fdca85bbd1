#include "coordinator/dispatcher.h"

#include <gtest/gtest.h>

#include <latch>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "base/service/call.h"
#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/metrics.h"
#include "tests/coordinator/tiny_cluster.h"

namespace ucudnn {
namespace {

class DispatcherTest : public ::testing::Test {
 protected:
  template <class Service, class Request, class Response>
  Result<Response> Run(const char* method,
                       Result<Response> (Service::*call)(const Request&),
                       const Request& request, bool* busy = nullptr) {
    return dispatcher_.Run({.host = "test"}, method, call, request, busy);
  }

  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  SystemClock clock_;
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  Metrics metrics_;
  Dispatcher dispatcher_{coordinator_, metrics_};
};

TEST_F(DispatcherTest, HearsAgentsWhileOtherCallsAreRefused) {
  ASSERT_TRUE(Run("Register", &AgentService::Register, test::Agent("a", "d")));
  std::latch inside(kMaxShortCalls);
  std::latch leave(1);
  {
    std::vector<std::jthread> callers;
    for (std::size_t i = 0; i < kMaxShortCalls; ++i) {
      callers.emplace_back([&] {
        // Asked once the call has its place, and then held there.
        const Call held([&, first = true]() mutable -> Status {
          if (std::exchange(first, false)) {
            inside.count_down();
            leave.wait();
          }
          return {};
        });
        EXPECT_TRUE(
            Run("GetStatus", &UpkeepService::GetStatus, v1::StatusRequest()));
      });
    }
    inside.wait();
    // These may wait, so many that one more is refused.
    std::latch refused(1);
    for (std::size_t i = 0; i <= kMaxWaitingShortCalls; ++i) {
      callers.emplace_back([&] {
        bool busy = false;
        const auto status = Run("GetStatus", &UpkeepService::GetStatus,
                                v1::StatusRequest(), &busy);
        EXPECT_EQ(status.has_value(), !busy);
        if (busy) refused.count_down();
      });
    }
    refused.wait();
    v1::HeartbeatRequest beat;
    beat.set_agent_id("a");
    const auto heard = Run("Heartbeat", &AgentService::Heartbeat, beat);
    EXPECT_TRUE(heard) << heard.error().message;
    leave.count_down();
  }
}

// Knows operators by their tokens, which are their names.
class NamesGuard final : public Guard {
 public:
  Result<std::optional<Principal>> Admit(const Peer& peer, std::string_view,
                                         const Claim&) const override {
    return Principal{
        .cluster = "c", .role = Role::kOperator, .name = peer.authorization};
  }
  Status Authenticate(const Peer&) const override { return {}; }
  const GuardFiles* files() const override { return nullptr; }
  std::shared_ptr<SSL_CTX> tls() const override { return nullptr; }
};

TEST_F(DispatcherTest, RefusesNumbersThatNothingHas) {
  const auto refused = [](const auto& answer) {
    return answer ? std::string() : answer.error().message;
  };
  v1::PlanRequest plan;
  plan.set_batch(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(refused(Run("CreatePlan", &PlanService::CreatePlan, plan)),
            "batch is -9223372036854775808; 0 or more is accepted");
  v1::HoldAgentRequest hold;
  hold.set_deadline_ms(-1);
  EXPECT_EQ(refused(Run("HoldAgent", &JobService::HoldAgent, hold)),
            "deadline_ms is -1; 0 or more is accepted");
  v1::ReportStepsRequest steps;
  steps.add_batches()->add_step_ns(-5);
  EXPECT_EQ(refused(Run("ReportSteps", &JobService::ReportSteps, steps)),
            "step_ns is -5; 0 or more is accepted");
  v1::ReplanJobRequest replan;
  replan.add_exclude_ranks(-2);
  EXPECT_EQ(refused(Run("ReplanJob", &JobService::ReplanJob, replan)),
            "exclude_ranks is -2; 0 or more is accepted");
  for (const double weight : {-1.0, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    v1::AllocateRequest allocate;
    allocate.add_jobs()->set_weight(weight);
    EXPECT_EQ(refused(Run("Allocate", &PlanService::Allocate, allocate)),
              fmt::format("weight is {}; 0 or more is accepted", weight));
  }
}

TEST_F(DispatcherTest, BoundsTheRanksThatOneCallerRegistersInADay) {
  const NamesGuard guard;
  Dispatcher named(coordinator_, metrics_, guard);
  CoordinatorOptions options;
  options.max_job_ranks_per_caller = 5;
  coordinator_.context.Reconfigure(options);
  v1::RegisterJobRequest job;
  for (int r = 0; r < 3; ++r) job.add_ranks()->set_rank(r);
  const auto add = [&](const std::string& id, const std::string& caller) {
    job.set_job_id(id);
    const auto added = named.Run({.host = "test", .authorization = caller},
                                 "RegisterJob", &JobService::RegisterJob, job);
    return added ? Code::kOk : added.error().code;
  };
  EXPECT_EQ(add("1", "alice"), Code::kOk);
  EXPECT_EQ(add("2", "alice"), Code::kResourceExhausted);
  EXPECT_EQ(add("1", "alice"), Code::kOk);  // as before
  EXPECT_EQ(add("2", "bob"), Code::kOk);
  EXPECT_EQ(coordinator_.jobs.ListJobs({})->jobs_size(), 2);
  job.mutable_ranks(1)->set_host(std::string(kMaxRankTextBytes + 1, 'x'));
  EXPECT_EQ(add("3", "carol"), Code::kInvalidArgument);
}

TEST_F(DispatcherTest, TellsTheCoordinatorWhoCalls) {
  const NamesGuard guard;
  Dispatcher named(coordinator_, metrics_, guard);
  ASSERT_TRUE(coordinator_.networks.PutNetwork(test::PutTiny()));
  v1::MeasureRequest request;
  request.set_wait_for_device(true);
  request.mutable_plan()->set_network("tiny");
  request.mutable_plan()->set_batch(1);
  request.mutable_plan()->add_device_kinds(test::kKind);
  ASSERT_TRUE(named.Run({.host = "test", .authorization = "alice"}, "Measure",
                        &JobService::Measure, request));
  request.mutable_plan()->set_batch(2);
  ASSERT_TRUE(Run("Measure", &JobService::Measure, request));
  const auto tasks = store_->tasks.ListTasks({}).value();
  EXPECT_EQ(tasks.front().asked_by, "operator alice");
  EXPECT_EQ(tasks.back().asked_by, "");
}

}  // namespace
}  // namespace ucudnn
