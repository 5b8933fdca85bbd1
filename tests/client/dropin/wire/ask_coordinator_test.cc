// Questions to real gRPC servers, and to ports without one.

#include "client/dropin/wire/ask_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/dropin/wire/grpc_call.h"
#include "proto/convert.h"
#include "tests/client/dropin/wire/listener.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

using std::chrono::steady_clock;
using test::ClosedPort;
using test::Listener;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

ConvProblem Problem() {
  ConvProblem problem;
  problem.geometry.channels = 3;
  return problem;
}

v1::ProblemProfile Profile(std::int64_t batches) {
  v1::ProblemProfile profile;
  for (std::int64_t batch = 1; batch <= batches; ++batch) {
    MeasuredPoint point;
    point.batch = BatchSize(batch);
    point.algorithm = {"GEMM", "FMA", Precision::kFp32};
    point.time = Nanoseconds(batch);
    *profile.add_measurements() = ToProto(point);
  }
  return profile;
}

TEST(AskCoordinatorTest, AsksAGrpcService) {
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const v1::GetProblemProfileRequest& request)
      -> Result<v1::ProblemProfile> {
    EXPECT_EQ(request.kind(), "a kind");
    EXPECT_EQ(request.problem(), ToString(Problem()));
    return Profile(2);
  };
  CoordinatorAsker asker({coordinator.address()});
  for (int time = 0; time < 3; ++time) {
    const auto known = asker.Ask("a kind", Problem());
    ASSERT_TRUE(known) << known.error().message;
    EXPECT_THAT(known->points, SizeIs(2));
  }
}

TEST(AskCoordinatorTest, ReadsAnswersOfMegabytes) {
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> { return Profile(60'000); };
  CoordinatorAsker asker({coordinator.address()},
                         {.within = std::chrono::seconds(60)});
  const auto known = asker.Ask("a kind", Problem());
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_THAT(known->points, SizeIs(60'000));
}

TEST(AskCoordinatorTest, FindsHostsByName) {
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> { return Profile(1); };
  const std::string port =
      coordinator.address().substr(coordinator.address().find(':'));
  CoordinatorAsker asker({"localhost" + port},
                         {.within = std::chrono::seconds(60)});
  const auto known = asker.Ask("a kind", Problem());
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_THAT(known->points, SizeIs(1));
}

TEST(AskCoordinatorTest, FailsOverToTheNextAndStaysThere) {
  const ClosedPort closed;
  ScriptedCoordinator refusing;  // an older one: UNIMPLEMENTED
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> { return Profile(1); };
  CoordinatorAsker asker(
      {closed.address(), refusing.address(), coordinator.address()},
      {.within = std::chrono::seconds(60)});
  ASSERT_TRUE(asker.Ask("a kind", Problem()));
  ASSERT_TRUE(asker.Ask("a kind", Problem()));
  EXPECT_THAT(refusing.calls(), ElementsAre("GetProblemProfile"));
  EXPECT_THAT(coordinator.calls(), SizeIs(2));
}

TEST(AskCoordinatorTest, PausesAfterAFailure) {
  const ClosedPort closed;
  auto now = steady_clock::time_point();
  CoordinatorAsker asker({closed.address()}, {.pause = std::chrono::seconds(30),
                                              .now = [&] { return now; }});
  const auto first = asker.Ask("a kind", Problem());
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Code::kUnavailable);
  EXPECT_THAT(first.error().message,
              AllOf(HasSubstr(closed.address()), HasSubstr("refused")));
  now += std::chrono::seconds(29);
  EXPECT_THAT(asker.Ask("a kind", Problem()).error().message,
              HasSubstr("a moment ago"));
  now += std::chrono::seconds(1);
  EXPECT_THAT(asker.Ask("a kind", Problem()).error().message,
              HasSubstr("refused"));
}

TEST(AskCoordinatorTest, DoesNotWaitForOneThatHangs) {
  const Listener hanging;
  ScriptedCoordinator coordinator;
  coordinator.get_problem_profile =
      [](const auto&) -> Result<v1::ProblemProfile> { return Profile(1); };
  // The one that hangs leaves time for the other.
  CoordinatorAsker asker({hanging.address(), coordinator.address()},
                         {.within = std::chrono::seconds(2)});
  EXPECT_TRUE(asker.Ask("a kind", Problem()));

  const auto alone =
      CallGrpc(hanging.address(), "/none", "",
               steady_clock::now() + std::chrono::milliseconds(20));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, Code::kDeadlineExceeded);
}

TEST(GrpcCallTest, TellsWhyACallIsRefused) {
  ScriptedCoordinator coordinator;
  const auto answer =
      CallGrpc(coordinator.address(), "/ucudnn.v1.CoordinatorService/GetStatus",
               "", steady_clock::now() + std::chrono::seconds(60));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("refused (UNIMPLEMENTED)"));
}

}  // namespace
}  // namespace ucudnn
