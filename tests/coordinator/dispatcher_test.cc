#include "coordinator/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <latch>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/metrics.h"
#include "proto/job_key.h"
#include "tests/coordinator/tiny_cluster.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using ::testing::StartsWith;

// What a call answers.
template <class Response>
struct Answered {
  Result<Response> response;
  bool busy = false;
};

template <class Response>
Answered<Response> Ask(
    Dispatcher& dispatcher, const std::string& call,
    const google::protobuf::Message& request, const Peer& peer = {"test"},
    std::function<bool()> wanted = [] { return true; }) {
  std::promise<Answered<Response>> answered;
  dispatcher.Start(
      {.call = *FindCall(call),
       .peer = peer,
       .read = [&]() -> Result<std::unique_ptr<Dispatcher::Message>> {
         std::unique_ptr<Dispatcher::Message> message(request.New());
         message->CopyFrom(request);
         return message;
       },
       .wanted = std::move(wanted),
       .answer =
           [&](Result<Answer> answer, bool busy) {
             if (!answer) {
               return answered.set_value(
                   {tl::unexpected<Error>(answer.error()), busy});
             }
             Response response;
             response.CopyFrom(*answer->message);
             answered.set_value({std::move(response), busy});
           }});
  return answered.get_future().get();
}

class DispatcherTest : public ::testing::Test {
 protected:
  template <class Response>
  Result<Response> Call(const std::string& call,
                        const google::protobuf::Message& request) {
    return Ask<Response>(dispatcher_, call, request).response;
  }

  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  SystemClock clock_;
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  Metrics metrics_;
  Dispatcher dispatcher_{coordinator_, metrics_};
};

TEST_F(DispatcherTest, HearsAgentsWhileOtherCallsAreRefused) {
  ASSERT_TRUE(Call<v1::RegisterResponse>("Register", test::Agent("a", "d")));
  std::latch inside(kMaxShortCalls);
  std::latch leave(1);
  std::vector<std::jthread> callers;
  for (std::size_t i = 0; i < kMaxShortCalls; ++i) {
    callers.emplace_back([&] {
      // Asked once a thread has the call, and then held there.
      const auto held = [&, first = true]() mutable {
        if (std::exchange(first, false)) {
          inside.count_down();
          leave.wait();
        }
        return true;
      };
      EXPECT_TRUE(Ask<v1::StatusResponse>(dispatcher_, "GetStatus",
                                          v1::StatusRequest(), {"test"}, held)
                      .response);
    });
  }
  inside.wait();
  // These may wait, so many that one more is refused.
  std::latch refused(1);
  for (std::size_t i = 0; i <= kMaxWaitingShortCalls; ++i) {
    callers.emplace_back([&] {
      const auto status = Ask<v1::StatusResponse>(dispatcher_, "GetStatus",
                                                  v1::StatusRequest());
      EXPECT_EQ(status.response.has_value(), !status.busy);
      if (status.busy) refused.count_down();
    });
  }
  refused.wait();
  v1::HeartbeatRequest beat;
  beat.set_agent_id("a");
  const auto heard = Call<v1::HeartbeatResponse>("Heartbeat", beat);
  EXPECT_TRUE(heard) << heard.error().message;
  leave.count_down();
}

// Knows all by their tokens, which are their names.
class NamesGuard final : public Guard {
 public:
  explicit NamesGuard(Role role) : role_(role) {}
  Result<std::optional<Principal>> Identify(const Peer& peer) const override {
    return Principal{.cluster = "c", .role = role_, .name = peer.authorization};
  }
  const GuardFiles* files() const override { return nullptr; }
  std::shared_ptr<SSL_CTX> tls() const override { return nullptr; }

 private:
  const Role role_;
};

TEST_F(DispatcherTest, RefusesNumbersThatNothingHas) {
  const auto refused = [](const auto& answer) {
    return answer ? std::string() : answer.error().message;
  };
  v1::PlanRequest plan;
  plan.set_batch(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(refused(Call<v1::Plan>("CreatePlan", plan)),
            "batch is -9223372036854775808; 0 or more is accepted");
  v1::MeasureRequest measure;
  measure.mutable_plan()->mutable_memory()->set_budget_bytes(-7);
  EXPECT_EQ(refused(Call<v1::MeasureProgress>("Measure", measure)),
            "plan.memory.budget_bytes is -7; 0 or more is accepted");
  v1::HoldAgentRequest hold;
  hold.set_deadline_ms(-1);
  EXPECT_EQ(refused(Call<v1::HoldAgentResponse>("HoldAgent", hold)),
            "deadline_ms is -1; 0 or more is accepted");
  v1::ReportStepsRequest steps;
  steps.add_batches()->add_step_ns(-5);
  EXPECT_EQ(refused(Call<v1::ReportStepsResponse>("ReportSteps", steps)),
            "batches[0].step_ns[0] is -5; 0 or more is accepted");
  v1::ReplanJobRequest replan;
  replan.add_exclude_ranks(-2);
  EXPECT_EQ(refused(Call<v1::JobRevision>("ReplanJob", replan)),
            "exclude_ranks[0] is -2; 0 or more is accepted");
  for (const double weight : {-1.0, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()}) {
    v1::AllocateRequest allocate;
    allocate.add_jobs()->set_weight(weight);
    EXPECT_EQ(
        refused(Call<v1::Allocation>("Allocate", allocate)),
        fmt::format("jobs[0].weight is {}; 0 or more is accepted", weight));
  }
}

TEST_F(DispatcherTest, BoundsTheRanksThatOneCallerRegistersInADay) {
  const NamesGuard guard(Role::kJob);
  Dispatcher named(coordinator_, metrics_, guard);
  CoordinatorOptions options;
  options.max_job_ranks_per_caller = 5;
  coordinator_.context.Reconfigure(options);
  v1::RegisterJobRequest job;
  for (int r = 0; r < 3; ++r) job.add_ranks()->set_rank(r);
  const auto add = [&](const std::string& key, const std::string& caller) {
    job.set_job_id(JobIdOf(key));
    const auto added =
        Ask<v1::RegisterJobResponse>(
            named, "RegisterJob", job,
            {.host = "test", .authorization = caller, .job_key = key})
            .response;
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

TEST_F(DispatcherTest, LetsJobsReplaceTheirOwnStepsAlone) {
  const NamesGuard jobs(Role::kJob);
  const NamesGuard operators(Role::kOperator);
  Dispatcher by_jobs(coordinator_, metrics_, jobs);
  Dispatcher by_operators(coordinator_, metrics_, operators);
  const auto put = [](Dispatcher& dispatcher, const std::string& caller,
                      int us) -> std::string {
    v1::PutStepRequest step;
    step.set_name("s");
    step.set_content(fmt::format(R"({{"kinds": [{{"device_kind": "K",
        "steps": [{{"batch": 1, "time_us": {}}}]}}]}})",
                                 us));
    const auto answer = Ask<v1::Step>(dispatcher, "PutStep", step,
                                      {.host = "test", .authorization = caller})
                            .response;
    if (answer) return answer->put_by();
    EXPECT_EQ(answer.error().code, Code::kPermissionDenied);
    return answer.error().message;
  };
  EXPECT_EQ(put(by_jobs, "alice", 1), "job alice");
  EXPECT_EQ(put(by_jobs, "alice", 2), "job alice");
  EXPECT_THAT(put(by_jobs, "bob", 3),
              StartsWith("step 's' was put by job alice; job bob may put "));
  EXPECT_EQ(put(by_operators, "alice", 4), "operator alice");
  EXPECT_THAT(put(by_jobs, "alice", 5),
              StartsWith("step 's' was put by operator alice"));
}

TEST_F(DispatcherTest, CountsHeartbeatsThatItRefuses) {
  std::latch held(1);
  std::latch ended(kMaxHeartbeats + kMaxWaitingHeartbeats);
  const auto beat = [&](auto answer) {
    dispatcher_.Start(
        {.call = *FindCall("Heartbeat"),
         .peer = {"test"},
         .read = [&]() -> Result<std::unique_ptr<Dispatcher::Message>> {
           held.wait();
           return Fail(Code::kInvalidArgument, "bytes");
         },
         .wanted = [] { return true; },
         .answer = answer});
  };
  for (std::size_t i = 0; i < kMaxHeartbeats + kMaxWaitingHeartbeats; ++i) {
    beat([&](const Result<Answer>&, bool) { ended.count_down(); });
  }
  EXPECT_EQ(coordinator_.context.activity.heartbeats_refused, 0);
  bool refused = false;
  beat([&](const Result<Answer>&, bool busy) { refused = busy; });
  EXPECT_TRUE(refused);
  EXPECT_EQ(coordinator_.context.activity.heartbeats_refused, 1);
  held.count_down();
  ended.wait();
}

TEST_F(DispatcherTest, TellsTheCoordinatorWhoCalls) {
  const NamesGuard guard(Role::kOperator);
  Dispatcher named(coordinator_, metrics_, guard);
  ASSERT_TRUE(coordinator_.networks.PutNetwork(test::PutTiny()));
  v1::MeasureRequest request;
  request.set_wait_for_device(true);
  request.mutable_plan()->set_network("tiny");
  request.mutable_plan()->set_batch(1);
  request.mutable_plan()->add_device_kinds(test::kKind);
  ASSERT_TRUE(
      Ask<v1::MeasureProgress>(named, "Measure", request,
                               {.host = "test", .authorization = "alice"})
          .response);
  request.mutable_plan()->set_batch(2);
  ASSERT_TRUE(Call<v1::MeasureProgress>("Measure", request));
  const auto tasks = store_->tasks.ListTasks({}).value();
  EXPECT_EQ(tasks.front().asked_by, "operator alice");
  EXPECT_EQ(tasks.back().asked_by, "");
}

}  // namespace
}  // namespace ucudnn
