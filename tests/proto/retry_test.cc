#include "proto/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using namespace std::chrono_literals;

Attempt Transport(Code code) {
  return {Fail(code, "the transport failed"), false};
}
Attempt Answered(Code code) { return {Fail(code, "it said no"), true}; }
Attempt Done() { return {{}, true}; }

class RetryTest : public ::testing::Test {
 protected:
  // Runs Retry against a script whose last entry repeats; each attempt takes
  // `cost_`.
  Retried Play(std::vector<Attempt> script, std::size_t endpoints = 1) {
    std::size_t next = 0;
    return Retry(policy_, waiting_, endpoints, &endpoint_,
                 [&](std::size_t endpoint, Milliseconds timeout) {
                   tried_.push_back(endpoint);
                   timeouts_.push_back(timeout);
                   now_ += std::min(cost_, timeout);
                   Attempt answer = script[next];
                   if (next + 1 < script.size()) ++next;
                   return answer;
                 });
  }

  RetryPolicy policy_{.budget = 10s,
                      .attempt_timeout = 4s,
                      .first_wait = 100ms,
                      .longest_wait = 1s};
  std::chrono::steady_clock::time_point now_;
  Milliseconds cost_ = 0ms;
  double chance_ = 1.0;
  std::vector<Milliseconds> waits_;
  Waiting waiting_{.now = [this] { return now_; },
                   .sleep =
                       [this](Milliseconds time) {
                         waits_.push_back(time);
                         now_ += time;
                       },
                   .random = [this] { return chance_; }};
  std::size_t endpoint_ = 0;
  std::vector<std::size_t> tried_;
  std::vector<Milliseconds> timeouts_;
};

TEST_F(RetryTest, DoesNotWaitWhenTheFirstTrySucceeds) {
  const Retried result = Play({Done()});
  EXPECT_TRUE(result.status);
  EXPECT_EQ(result.attempts, 1);
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(RetryTest, WaitsExponentiallyUpToTheLongest) {
  const Retried result = Play(
      {Transport(Code::kUnavailable), Transport(Code::kUnavailable),
       Transport(Code::kUnavailable), Transport(Code::kDeadlineExceeded),
       Transport(Code::kUnavailable), Transport(Code::kUnavailable), Done()});
  EXPECT_TRUE(result.status);
  EXPECT_EQ(result.attempts, 7);
  EXPECT_THAT(waits_, ElementsAre(100ms, 200ms, 400ms, 800ms, 1s, 1s));
}

TEST_F(RetryTest, DrawsWaitsFromTheUpperHalf) {
  chance_ = 0.0;
  Play({Transport(Code::kUnavailable), Transport(Code::kUnavailable), Done()});
  EXPECT_THAT(waits_, ElementsAre(50ms, 100ms));
}

TEST_F(RetryTest, EndsWithinItsBudget) {
  const auto start = now_;
  cost_ = 3s;
  const Retried result = Play({Transport(Code::kDeadlineExceeded)});
  EXPECT_EQ(result.status.error().code, Code::kDeadlineExceeded);
  EXPECT_LE(now_ - start, 10s);
  EXPECT_GE(now_ - start, 9s);
  EXPECT_EQ(timeouts_.front(), 4s);
  EXPECT_LT(timeouts_.back(), 1s);
}

TEST_F(RetryTest, TriesOnceWithoutABudget) {
  policy_.budget = 0ms;
  EXPECT_TRUE(Play({Done()}).status);
  EXPECT_EQ(Play({Transport(Code::kUnavailable)}).attempts, 1);
}

TEST_F(RetryTest, GoesThroughTheListBeforeItWaits) {
  const Retried result = Play(
      {Transport(Code::kUnavailable), Transport(Code::kUnavailable),
       Transport(Code::kUnavailable), Transport(Code::kUnavailable), Done()},
      3);
  EXPECT_TRUE(result.status);
  EXPECT_THAT(tried_, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(waits_, ElementsAre(100ms));
  EXPECT_EQ(endpoint_, 1U);  // where the next call starts
}

TEST_F(RetryTest, DoesNotRepeatWhatACoordinatorRefused) {
  for (const Code code : {Code::kInvalidArgument, Code::kFailedPrecondition,
                          Code::kNotFound, Code::kAborted}) {
    const Retried result = Play({Answered(code), Done()}, 2);
    EXPECT_EQ(result.status.error().code, code);
    EXPECT_TRUE(result.answered);
  }
  EXPECT_EQ(tried_.size(), 4U);
  EXPECT_EQ(Play({Transport(Code::kUnimplemented), Done()}).attempts, 1);
}

TEST_F(RetryTest, GoesToTheNextCoordinatorIfOneAnswersThatItIsUnavailable) {
  // Its database is away. No measurement is awaited.
  policy_.await_measurements = 60s;
  const Retried result = Play({Answered(Code::kUnavailable), Done()}, 2);
  EXPECT_TRUE(result.status);
  EXPECT_THAT(tried_, ElementsAre(0, 1));
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(RetryTest, AwaitsMeasurementsAtTheSameCoordinatorIfAskedTo) {
  policy_.await_measurements = 1s;
  const Retried result =
      Play({Answered(Code::kAborted), Answered(Code::kAborted), Done()}, 2);
  EXPECT_TRUE(result.status);
  EXPECT_THAT(tried_, ElementsAre(0, 0, 0));
  EXPECT_THAT(waits_, ElementsAre(100ms, 200ms));
}

TEST_F(RetryTest, AwaitsMeasurementsLongerThanItsBudgetForTheTransport) {
  const auto start = now_;
  policy_.await_measurements = 60s;
  const Retried result = Play({Answered(Code::kAborted)});
  EXPECT_TRUE(result.answered);
  EXPECT_GT(now_ - start, 58s);
  EXPECT_LE(now_ - start, 60s);
}

TEST_F(RetryTest, StopsAwaitingWhenTheCoordinatorIsGone) {
  const auto start = now_;
  policy_.await_measurements = 60s;
  const Retried result =
      Play({Answered(Code::kAborted), Answered(Code::kAborted),
            Transport(Code::kUnavailable)});
  EXPECT_FALSE(result.answered);
  EXPECT_LE(now_ - start, 11s);
}

TEST_F(RetryTest, TriesEachCoordinatorOnceInOneRound) {
  policy_ = RetryPolicy::OneRound(10s);
  const Retried result = Play({Transport(Code::kUnavailable)}, 3);
  EXPECT_THAT(tried_, ElementsAre(0, 1, 2));
  EXPECT_THAT(waits_, IsEmpty());
  EXPECT_EQ(result.status.error().code, Code::kUnavailable);
}

TEST_F(RetryTest, DoesNotRepeatLongWorkConcurrently) {
  policy_.work_timeout = 1h;
  cost_ = 2h;
  const Retried result = Play({Transport(Code::kDeadlineExceeded), Done()}, 2);
  EXPECT_EQ(result.status.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(timeouts_, ElementsAre(1h));
}

TEST_F(RetryTest, HasItsBudgetLeftWhenACoordinatorLeavesAfterLongWork) {
  policy_.work_timeout = 1h;
  cost_ = 20min;
  const Retried result = Play(
      {Transport(Code::kUnavailable), Transport(Code::kUnavailable), Done()});
  EXPECT_TRUE(result.status);
  EXPECT_THAT(waits_, ElementsAre(100ms, 200ms));
  // A coordinator that leaves every time is not retried for ever.
  EXPECT_FALSE(Play({Transport(Code::kUnavailable)}).status);
}

TEST(BackoffTest, BeginsAnewAfterASuccess) {
  Backoff backoff(100ms, 300ms);
  EXPECT_EQ(backoff.Next(1.0), 100ms);
  EXPECT_EQ(backoff.Next(1.0), 200ms);
  EXPECT_EQ(backoff.Next(0.0), 150ms);
  backoff.Reset();
  EXPECT_EQ(backoff.Next(1.0), 100ms);
}

TEST(BackoffTest, SpreadsThoseWhoComeBack) {
  EXPECT_EQ(PartOf(kReconnectSpread, 0.0), 0ms);
  EXPECT_EQ(PartOf(kReconnectSpread, 0.5), kReconnectSpread / 2);
  EXPECT_GE(kReconnectSpread, 5s);
}

TEST(BackoffTest, PausesUntilItIsStopped) {
  std::stop_source stop;
  std::jthread stopping([&] { stop.request_stop(); });
  Pause(stop.get_token(), 24h);
  EXPECT_TRUE(stop.stop_requested());
}

}  // namespace
}  // namespace ucudnn
