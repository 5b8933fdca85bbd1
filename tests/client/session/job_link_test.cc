// A rank's link to a real gRPC server with scripted answers.

#include "client/session/job_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "proto/convert_plan.h"
#include "tests/client/tiny_network.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using test::WaitUntil;
using ::testing::ElementsAre;

class JobLinkTest : public ::testing::Test {
 protected:
  JobLinkTest() {
    coordinator_.register_job = [this](const v1::RegisterJobRequest& request)
        -> Result<v1::RegisterJobResponse> {
      const std::lock_guard lock(mutex_);
      ++registered_[request.job_id()];
      reached_ = std::max({reached_, request.revision(), std::int64_t{1}});
      registration_ = request;
      v1::RegisterJobResponse response;
      response.set_report_after_ms(10);
      return response;
    };
    coordinator_.report_steps = [this](const v1::ReportStepsRequest& request)
        -> Result<v1::ReportStepsResponse> {
      const std::lock_guard lock(mutex_);
      if (refuse_) return Fail(Code::kUnavailable, "the disk is away");
      if (forgotten_) {
        forgotten_ = false;
        return Fail(Code::kNotFound, "there is no job");
      }
      for (const v1::StepBatch& batch : request.batches()) {
        if (batch.revision() <= reached_) continue;
        return Fail(Code::kNotFound, "there is no such revision");
      }
      for (const v1::StepBatch& batch : request.batches()) {
        for (int i = 0; i < batch.step_ns_size(); ++i) {
          steps_.push_back(
              {batch.revision(), batch.first_step() + i, batch.step_ns(i)});
        }
      }
      v1::ReportStepsResponse response;
      response.set_report_after_ms(10);
      *response.mutable_newest() = newest_;
      reached_ = std::max(reached_, newest_.revision());
      return response;
    };
    coordinator_.get_plan = [](const std::string& id) -> Result<v1::Plan> {
      EXPECT_EQ(id, "7");
      JobPlan plan = TinyPlan(TinyRequest(BatchSize(8), {"A", "B"}), {5, 3});
      plan.id = 7;
      return ToProto(plan);
    };
    coordinator_.answer_revision =
        [this](const v1::AnswerRevisionRequest& request)
        -> Result<v1::AnswerRevisionResponse> {
      const std::lock_guard lock(mutex_);
      answers_.push_back(
          fmt::format("{}:{}", request.revision(), request.rejected()));
      return v1::AnswerRevisionResponse();
    };
    coordinator_.finish_job = [this](const v1::FinishJobRequest& request)
        -> Result<v1::FinishJobResponse> {
      const std::lock_guard lock(mutex_);
      finished_ = request.job_id();
      return v1::FinishJobResponse();
    };
  }

  std::unique_ptr<JobLink> Start(int rank) {
    JobLink::Options options;
    options.coordinators = coordinator_.address();
    options.job_id = "j";
    options.rank = rank;
    options.report_after = milliseconds(10);
    options.reconnect_spread = spread_;
    if (rank == 0) {
      options.registration.emplace();
      options.registration->set_job_id("j");
    }
    return JobLink::Start(std::move(options)).value();
  }
  template <class Read>
  auto Locked(const Read& read) {
    const std::lock_guard lock(mutex_);
    return read();
  }

  JobLink::Offer AwaitOffer(JobLink& link) {
    std::optional<JobLink::Offer> offer;
    EXPECT_TRUE(WaitUntil([&] {
      offer = link.TakeOffer();
      return offer.has_value();
    }));
    return offer.value_or(JobLink::Offer());
  }

  struct Step {
    std::int64_t revision;
    std::int64_t index;
    std::int64_t ns;
    bool operator==(const Step&) const = default;
  };

  milliseconds spread_{0};
  std::mutex mutex_;
  std::map<std::string, int> registered_;
  v1::RegisterJobRequest registration_;  // the last one
  std::int64_t reached_ = 100;           // the newest revision that is known
  std::vector<Step> steps_;
  std::vector<std::string> answers_;
  std::string finished_;
  bool refuse_ = false;
  bool forgotten_ = false;
  v1::JobRevision newest_;
  ScriptedCoordinator coordinator_;  // destroyed before what it writes to
};

TEST_F(JobLinkTest, ReportsEveryStepAndTheEnd) {
  const auto link = Start(0);
  link->Report(1, Nanoseconds(10));
  link->Report(1, Nanoseconds(11));
  link->Report(2, Nanoseconds(12));
  link->Finish();
  EXPECT_THAT(steps_,
              ElementsAre(Step{1, 0, 10}, Step{1, 1, 11}, Step{2, 0, 12}));
  EXPECT_EQ(registered_["j"], 1);
  EXPECT_EQ(finished_, "j");
}

// The last round has no next one that could make up for it.
TEST_F(JobLinkTest, RepeatsTheEndUntilTheCoordinatorTakesIt) {
  int refusals = 3;
  coordinator_.finish_job = [&](const v1::FinishJobRequest& request)
      -> Result<v1::FinishJobResponse> {
    if (refusals-- > 0) return Fail(Code::kUnavailable, "the disk is away");
    finished_ = request.job_id();
    return v1::FinishJobResponse();
  };
  const auto link = Start(0);
  link->Finish();
  EXPECT_EQ(finished_, "j");
  EXPECT_EQ(refusals, -1);
}

TEST_F(JobLinkTest, ReportsTheEndToACoordinatorThatForgotIt) {
  int reports = 0;
  coordinator_.report_steps =
      [&](const v1::ReportStepsRequest&) -> Result<v1::ReportStepsResponse> {
    const std::lock_guard lock(mutex_);
    if (++reports == 2) return Fail(Code::kNotFound, "there is no job");
    v1::ReportStepsResponse response;
    response.set_report_after_ms(60'000);  // the next report is the last
    return response;
  };
  const auto link = Start(0);
  ASSERT_TRUE(WaitUntil([&] { return Locked([&] { return reports == 1; }); }));
  link->Finish();
  EXPECT_EQ(registered_["j"], 2);
  EXPECT_EQ(finished_, "j");
}

TEST_F(JobLinkTest, ReportsTheEndAfterStepsThatAreRefused) {
  coordinator_.report_steps = [](const v1::ReportStepsRequest& request)
      -> Result<v1::ReportStepsResponse> {
    if (request.batches().empty()) return v1::ReportStepsResponse();
    return Fail(Code::kInvalidArgument, "they are too long");
  };
  const auto link = Start(0);
  link->Report(1, Nanoseconds(10));
  link->Finish();
  EXPECT_EQ(finished_, "j");
}

TEST_F(JobLinkTest, LeavesTheJobToRankZero) {
  const auto link = Start(1);
  link->Report(1, Nanoseconds(10));
  link->Finish();
  EXPECT_THAT(steps_, ElementsAre(Step{1, 0, 10}));
  EXPECT_EQ(registered_["j"], 0);
  EXPECT_EQ(finished_, "");
}

TEST_F(JobLinkTest, RepeatsUnacknowledgedSteps) {
  refuse_ = true;
  const auto link = Start(0);
  link->Report(1, Nanoseconds(10));
  const auto reports = [&] {
    const auto calls = coordinator_.calls();
    return std::count(calls.begin(), calls.end(), "ReportSteps");
  };
  ASSERT_TRUE(WaitUntil([&] { return reports() >= 2; }));
  link->Report(1, Nanoseconds(11));
  Locked([&] { return refuse_ = false; });
  ASSERT_TRUE(
      WaitUntil([&] { return Locked([&] { return steps_.size() > 1; }); }));
  link->Finish();
  EXPECT_THAT(steps_, ElementsAre(Step{1, 0, 10}, Step{1, 1, 11}));
}

TEST_F(JobLinkTest, RegistersAgainIfTheCoordinatorForgotIt) {
  const auto link = Start(0);
  ASSERT_TRUE(
      WaitUntil([&] { return Locked([&] { return registered_["j"]; }) == 1; }));
  Locked([&] { return forgotten_ = true; });
  EXPECT_TRUE(
      WaitUntil([&] { return Locked([&] { return registered_["j"]; }) == 2; }));
}

TEST_F(JobLinkTest, RegistersAgainWithTheRevisionThatItRuns) {
  const auto link = Start(0);
  const auto offered = [&](std::int64_t revision) {
    Locked([&] {
      newest_.set_revision(revision);
      newest_.set_plan_id(7);
      return true;
    });
    return AwaitOffer(*link);
  };
  link->Answer(offered(2), "");
  static_cast<void>(offered(3));
  // The coordinator gets another database. The ranks have an offer of the one
  // before, and adopt it while they register again.
  const JobLink::Offer old = offered(4);
  Locked([&] {
    reached_ = 0;
    newest_.Clear();
    return forgotten_ = true;
  });
  ASSERT_TRUE(
      WaitUntil([&] { return Locked([&] { return registered_["j"]; }) == 2; }));
  EXPECT_EQ(Locked([&] { return registration_.revision(); }), 2);
  EXPECT_EQ(Locked([&] { return registration_.plan_id(); }), 7);
  // What the new one offers is numbered after what the job registered with.
  EXPECT_EQ(offered(3).revision, 3);
  link->Answer(old, "");
  link->Report(4, Nanoseconds(10));
  ASSERT_TRUE(
      WaitUntil([&] { return Locked([&] { return steps_.size() == 1; }); }));
  EXPECT_EQ(Locked([&] { return registration_.revision(); }), 4);
  EXPECT_EQ(Locked([&] { return registration_.request().batch(); }), 8);
  EXPECT_EQ(offered(5).revision, 5);
  link->Finish();
  EXPECT_THAT(steps_, ElementsAre(Step{4, 0, 10}));
}

TEST_F(JobLinkTest, OffersANewPlanOnceAndReportsItsOutcome) {
  const auto link = Start(0);
  EXPECT_FALSE(link->TakeOffer());
  Locked([&] {
    newest_.set_revision(2);
    newest_.set_plan_id(7);
    return true;
  });
  const JobLink::Offer offer = AwaitOffer(*link);
  EXPECT_EQ(offer.revision, 2);
  EXPECT_EQ(offer.plan.ranks[0].batch, BatchSize(5));
  link->Answer(offer, "rank 1: no");
  ASSERT_TRUE(
      WaitUntil([&] { return Locked([&] { return !answers_.empty(); }); }));
  link->Finish();
  EXPECT_THAT(answers_, ElementsAre("2:rank 1: no"));
  EXPECT_FALSE(link->TakeOffer());
}

TEST_F(JobLinkTest, PausesBeforeItRepeatsAnAnswerThatWasNotDelivered) {
  constexpr milliseconds kPause{100};
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> tries;
  coordinator_.register_job = [&](const v1::RegisterJobRequest&) {
    v1::RegisterJobResponse response;
    response.set_report_after_ms(kPause.count());
    return response;
  };
  coordinator_.report_steps = [&](const v1::ReportStepsRequest&) {
    v1::ReportStepsResponse response;
    response.set_report_after_ms(kPause.count());
    return response;
  };
  coordinator_.answer_revision = [&](const v1::AnswerRevisionRequest&)
      -> Result<v1::AnswerRevisionResponse> {
    const std::lock_guard lock(mutex_);
    tries.push_back(Clock::now());
    if (tries.size() < 4) return Fail(Code::kUnavailable, "the disk is away");
    return v1::AnswerRevisionResponse();
  };
  const auto link = Start(0);
  link->Answer({2, {}}, "");
  ASSERT_TRUE(
      WaitUntil([&] { return Locked([&] { return tries.size() == 4; }); }));
  // The answer itself may shorten the first pause; the others are jittered.
  EXPECT_GE(tries[3] - tries[1], kPause * 9 / 10);
}

TEST_F(JobLinkTest, ComesBackAtAnyMomentOfTheSpread) {
  EXPECT_GE(JobLink::Options().reconnect_spread, milliseconds(5'000));
  constexpr int kRanks = 16;
  using Clock = std::chrono::steady_clock;
  std::map<int, std::vector<Clock::time_point>> tries;
  coordinator_.report_steps = [&](const v1::ReportStepsRequest& request)
      -> Result<v1::ReportStepsResponse> {
    const std::lock_guard lock(mutex_);
    tries[request.rank()].push_back(Clock::now());
    return Fail(Code::kUnavailable, "the disk is away");
  };
  spread_ = milliseconds(400);
  std::vector<std::unique_ptr<JobLink>> links;
  for (int rank = 1; rank <= kRanks; ++rank) links.push_back(Start(rank));
  ASSERT_TRUE(WaitUntil([&] {
    return Locked([&] {
      return std::ranges::count_if(tries, [](const auto& of_rank) {
               return of_rank.second.size() > 1;
             }) == kRanks;
    });
  }));
  const std::lock_guard lock(mutex_);
  std::vector<Clock::duration> pauses;
  for (const auto& [rank, times] : tries) pauses.push_back(times[1] - times[0]);
  const auto [least, most] = std::ranges::minmax(pauses);
  EXPECT_GT(most - least, milliseconds(100));
}

TEST_F(JobLinkTest, DropsAnAnswerThatTheCoordinatorRefuses) {
  coordinator_.answer_revision = [](const v1::AnswerRevisionRequest&)
      -> Result<v1::AnswerRevisionResponse> {
    return Fail(Code::kInvalidArgument, "there is no revision 9");
  };
  const auto link = Start(0);
  link->Answer({9, {}}, "no");
  link->Report(1, Nanoseconds(10));
  EXPECT_TRUE(
      WaitUntil([&] { return Locked([&] { return steps_.size() == 1; }); }));
}

TEST_F(JobLinkTest, ReportsTheEndToASlowCoordinator) {
  coordinator_.finish_job = [this](const v1::FinishJobRequest& request)
      -> Result<v1::FinishJobResponse> {
    const auto asked = std::chrono::steady_clock::now();
    EXPECT_TRUE(WaitUntil([&] {
      return std::chrono::steady_clock::now() - asked >
             JobLink::Options().call_within + milliseconds(500);
    }));
    const std::lock_guard lock(mutex_);
    finished_ = request.job_id();
    return v1::FinishJobResponse();
  };
  const auto link = Start(0);
  link->Finish();
  EXPECT_EQ(Locked([&] { return finished_; }), "j");
}

TEST_F(JobLinkTest, EndsInTimeIfNobodyAnswers) {
  coordinator_.Stop();
  const auto link = Start(0);
  link->Report(1, Nanoseconds(10));
  const auto start = std::chrono::steady_clock::now();
  link->Finish();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(10'000));
  EXPECT_THAT(steps_, ElementsAre());
}

}  // namespace
}  // namespace ucudnn
