#include "coordinator/dispatcher.h"

#include <gtest/gtest.h>

#include <latch>
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
  template <class Request, class Response>
  Result<Response> Run(const char* method,
                       Result<Response> (Coordinator::*call)(const Request&),
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
  ASSERT_TRUE(Run("Register", &Coordinator::Register, test::Agent("a", "d")));
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
            Run("GetStatus", &Coordinator::GetStatus, v1::StatusRequest()));
      });
    }
    inside.wait();
    // These may wait, so many that one more is refused.
    std::latch refused(1);
    for (std::size_t i = 0; i <= kMaxWaitingShortCalls; ++i) {
      callers.emplace_back([&] {
        bool busy = false;
        const auto status = Run("GetStatus", &Coordinator::GetStatus,
                                v1::StatusRequest(), &busy);
        EXPECT_EQ(status.has_value(), !busy);
        if (busy) refused.count_down();
      });
    }
    refused.wait();
    v1::HeartbeatRequest beat;
    beat.set_agent_id("a");
    const auto heard = Run("Heartbeat", &Coordinator::Heartbeat, beat);
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

TEST_F(DispatcherTest, TellsTheCoordinatorWhoCalls) {
  const NamesGuard guard;
  Dispatcher named(coordinator_, metrics_, guard);
  ASSERT_TRUE(coordinator_.PutNetwork(test::PutTiny()));
  v1::MeasureRequest request;
  request.set_wait_for_device(true);
  request.mutable_plan()->set_network("tiny");
  request.mutable_plan()->set_batch(1);
  request.mutable_plan()->add_device_kinds(test::kKind);
  ASSERT_TRUE(named.Run({.host = "test", .authorization = "alice"}, "Measure",
                        &Coordinator::Measure, request));
  request.mutable_plan()->set_batch(2);
  ASSERT_TRUE(Run("Measure", &Coordinator::Measure, request));
  const auto tasks = store_->ListTasks({}).value();
  EXPECT_EQ(tasks.front().asked_by, "operator alice");
  EXPECT_EQ(tasks.back().asked_by, "");
}

}  // namespace
}  // namespace ucudnn
