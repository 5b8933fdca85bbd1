#include "proto/caller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/scripted_coordinator.h"
#include "tests/support/tls_server.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using namespace std::chrono_literals;

using Coordinators = ServiceCaller<v1::CoordinatorService>;
using Stub = Coordinators::Stub;

// Waits return at once and are charged to the budget.
Waiting NoWaiting() {
  auto skipped = std::make_shared<std::chrono::nanoseconds>(0);
  return {.now =
              [skipped] {
                return std::chrono::steady_clock::time_point() + *skipped;
              },
          .sleep = [skipped](Milliseconds time) { *skipped += time; },
          .random = [] { return 0.5; }};
}

std::unique_ptr<Coordinators> Open(std::vector<std::string> list,
                                   Caller::Options options = {
                                       .waiting = NoWaiting()}) {
  auto coordinators = Coordinators::Open(std::move(list), std::move(options));
  UCUDNN_CHECK(coordinators.has_value());
  return *std::move(coordinators);
}

Result<v1::StatusResponse> GetStatus(Coordinators& coordinators,
                                     const RetryPolicy& policy = {}) {
  return coordinators.Call(&Stub::GetStatus, v1::StatusRequest(), policy);
}

// An address where nobody listens. Its port stays reserved during the test, so
// that no other process can listen there.
class DeadAddress {
 public:
  DeadAddress() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    UCUDNN_CHECK(bind(socket_, any, size) == 0 &&
                 getsockname(socket_, any, &size) == 0);
    text_ = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  }
  ~DeadAddress() { close(socket_); }
  DeadAddress(const DeadAddress&) = delete;
  DeadAddress& operator=(const DeadAddress&) = delete;
  const std::string& text() const { return text_; }

 private:
  int socket_;
  std::string text_;
};

TEST(CallerTest, ReturnsTheAnswer) {
  ScriptedCoordinator coordinator;
  coordinator.create_plan = [](const v1::PlanRequest& request) {
    v1::Plan plan;
    plan.set_id(7);
    *plan.mutable_request() = request;
    return plan;
  };
  coordinator.get_network = [](const std::string& name) {
    v1::Network network;
    network.set_name(name);
    return network;
  };
  auto connection = Open({coordinator.address()});
  v1::PlanRequest request;
  request.set_network("vgg");
  const auto plan = connection->Call(&Stub::CreatePlan, request);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->id(), 7);
  EXPECT_EQ(plan->request().network(), "vgg");
  v1::GetRequest get;
  get.set_id("vgg");
  EXPECT_EQ(connection->Call(&Stub::GetNetwork, get)->name(), "vgg");
}

TEST(CallerTest, ReturnsTheCoordinatorsErrors) {
  ScriptedCoordinator coordinator;
  coordinator.create_plan = [](const v1::PlanRequest&) -> Result<v1::Plan> {
    return Fail(Code::kFailedPrecondition, "conv2 forward needs 3MiB");
  };
  const auto plan =
      Open({coordinator.address()})->Call(&Stub::CreatePlan, v1::PlanRequest());
  EXPECT_EQ(plan.error(),
            (Error{Code::kFailedPrecondition, "conv2 forward needs 3MiB"}));
  EXPECT_THAT(coordinator.calls(), ElementsAre("CreatePlan"));
}

TEST(CallerTest, NamesACoordinatorThatCannotBeReached) {
  const DeadAddress address;
  const std::string& dead = address.text();
  const auto status = GetStatus(*Open({dead}), {.budget = 300ms});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_THAT(status.error().message,
              StartsWith("coordinator " + dead +
                         " cannot be reached: Connection refused ("));
  EXPECT_THAT(status.error().message, HasSubstr(" tries)"));
}

TEST(CallerTest, FailsOverToTheNextOfTheList) {
  ScriptedCoordinator coordinator;
  coordinator.get_status = [] {
    v1::StatusResponse response;
    response.set_version("0.1.0");
    return response;
  };
  const DeadAddress dead;
  auto connection = Open({dead.text(), coordinator.address()});
  const auto status = GetStatus(*connection);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->version(), "0.1.0");
  EXPECT_TRUE(GetStatus(*connection));
}

TEST(CallerTest, BoundsTheTimeOfACallThatIsNotAnswered) {
  std::mutex mutex;
  std::condition_variable released;
  bool release = false;
  ScriptedCoordinator coordinator;
  coordinator.get_status = [&] {
    std::unique_lock lock(mutex);
    released.wait(lock, [&] { return release; });
    return v1::StatusResponse();
  };
  const auto status = GetStatus(*Open({coordinator.address()}),
                                {.budget = 0ms, .attempt_timeout = 1ms});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(status.error().message, HasSubstr("cannot be reached"));
  {
    const std::lock_guard lock(mutex);
    release = true;
  }
  released.notify_all();
}

TEST(CallerTest, DistinguishesMissingMeasurementsFromABrokenTransport) {
  ScriptedCoordinator coordinator;
  int calls = 0;
  coordinator.create_plan = [&](const v1::PlanRequest&) -> Result<v1::Plan> {
    if (++calls % 3 != 0) {
      return Fail(Code::kAborted, "conv1 forward is not measured yet");
    }
    return v1::Plan();
  };
  auto connection = Open({coordinator.address()});
  const v1::PlanRequest request;
  const auto impatient = connection->Call(&Stub::CreatePlan, request);
  ASSERT_FALSE(impatient);
  EXPECT_EQ(impatient.error(),
            (Error{Code::kAborted, "conv1 forward is not measured yet"}));
  EXPECT_TRUE(connection->Call(&Stub::CreatePlan, request,
                               {.await_measurements = 10s}));
  EXPECT_EQ(calls, 3);
}

TEST(CallerTest, ContinuesWhenACoordinatorLeaves) {
  auto coordinator = std::make_unique<ScriptedCoordinator>();
  auto other = std::make_unique<ScriptedCoordinator>();
  const auto answer = [] { return v1::StatusResponse(); };
  coordinator->get_status = answer;
  other->get_status = answer;
  auto connection = Open({coordinator->address(), other->address()});
  ASSERT_TRUE(GetStatus(*connection));
  coordinator->Stop();
  ASSERT_TRUE(GetStatus(*connection));
  EXPECT_THAT(other->calls(), ElementsAre("GetStatus"));
  other->Stop();
  EXPECT_FALSE(GetStatus(*connection, {.budget = 100ms}));
}

TEST(CallerTest, ReturnsOverTlsToACoordinatorThatWasAway) {
  const test::Certificates certificates;
  ScriptedCoordinator coordinator(test::TlsServerCredentials(certificates));
  coordinator.get_status = [] { return v1::StatusResponse(); };
  const auto connection =
      Open({coordinator.address()},
           {.credentials = certificates.Issue(Role::kOperator, "o")});
  const RetryPolicy once = RetryPolicy::OneRound(1s);
  ASSERT_TRUE(GetStatus(*connection));
  coordinator.Stop();
  for (int call = 0; call < 2; ++call) {
    const auto began = std::chrono::steady_clock::now();
    const auto status = GetStatus(*connection, once);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kUnavailable);
    EXPECT_LT(std::chrono::steady_clock::now() - began, 1s);
  }
  coordinator.Start();
  EXPECT_TRUE(
      test::WaitUntil([&] { return GetStatus(*connection, once).has_value(); },
                      std::chrono::seconds(10)));
}

// A handler that blocks until it is released.
class LongWork {
 public:
  void Do() {
    std::unique_lock lock(mutex_);
    began_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return released_; });
  }
  void AwaitBeginning() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return began_; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool began_ = false;
  bool released_ = false;
};

TEST(CallerTest, ContinuesWhenACoordinatorShutsDownDuringACall) {
  LongWork work;
  ScriptedCoordinator leaving;
  leaving.get_status = [&] {
    work.Do();
    return v1::StatusResponse();
  };
  ScriptedCoordinator other;
  other.get_status = [&] {
    work.Release();
    return v1::StatusResponse();
  };
  auto connection = Open({leaving.address(), other.address()});
  std::jthread shutdown([&] {
    work.AwaitBeginning();
    leaving.Stop();
  });
  const auto status = GetStatus(*connection);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_THAT(other.calls(), ElementsAre("GetStatus"));
  work.Release();
}

TEST(CallerTest, SaysThatACoordinatorShutDown) {
  ScriptedCoordinator leaving;
  leaving.shutting_down = true;
  const auto status = GetStatus(*Open({leaving.address()}));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_THAT(status.error().message,
              HasSubstr("cannot be reached: it shut down"));
  EXPECT_GT(leaving.calls().size(), 1U);
}

TEST(CallerTest, EndsACallWhenItIsStopped) {
  LongWork work;
  ScriptedCoordinator coordinator;
  coordinator.get_status = [&] {
    work.Do();
    return v1::StatusResponse();
  };
  std::stop_source stop;
  const auto connection =
      Open({coordinator.address()}, {.stop = stop.get_token()});
  std::jthread stopping([&] {
    work.AwaitBeginning();
    stop.request_stop();
  });
  const auto status = GetStatus(*connection, {.attempt_timeout = 1h});
  work.Release();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_THAT(status.error().message, HasSubstr("stopped"));
  // So do all later calls.
  EXPECT_EQ(GetStatus(*connection).error().code, Code::kCancelled);
  EXPECT_EQ(coordinator.calls().size(), 1U);
}

}  // namespace
}  // namespace ucudnn
