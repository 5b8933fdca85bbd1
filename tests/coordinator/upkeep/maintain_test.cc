// Who is lost, whatever the clocks of the hosts say.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/limits.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class MaintainTest : public ::testing::Test {
 protected:
  // A coordinator over the store, on a host with this clock.
  struct Host {
    Host(Store& store, std::int64_t now_ms) : clock(now_ms) {
      coordinator =
          std::make_unique<Coordinator>(CoordinatorOptions(), store, clock);
    }
    FakeClock clock;
    std::unique_ptr<Coordinator> coordinator;
  };

  MaintainTest() {
    v1::RegisterRequest request;
    request.set_agent_id("a");
    UCUDNN_CHECK(first_.coordinator->agents.Register(request).has_value());
  }

  void Beat(Host& host) {
    v1::HeartbeatRequest request;
    request.set_agent_id("a");
    ASSERT_TRUE(host.coordinator->agents.Heartbeat(request));
  }

  // Lets `time` pass in steps of a second, with a heartbeat to `heard` in each
  // unless that is null.
  void Pass(seconds time, Host* heard) {
    for (seconds passed{0}; passed < time; ++passed) {
      for (Host* host : {&first_, &second_}) {
        host->clock.Advance(seconds(1));
        if (host == heard) Beat(*host);
        ASSERT_TRUE(host->coordinator->upkeep.Maintain());
      }
    }
  }

  AgentState State() { return store_->agents.GetAgent("a")->state; }

  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Host first_{*store_, 1'000'000'000};
  // Its clock is 15 s ahead.
  Host second_{*store_, 1'000'015'000};
};

TEST_F(MaintainTest, KeepsAnAgentThatOneOfTwoCoordinatorsHears) {
  Pass(seconds(30), &first_);
  EXPECT_EQ(State(), AgentState::kOnline);
}

TEST_F(MaintainTest, KeepsAgentsWhenTheClockJumpsAhead) {
  Pass(seconds(5), &first_);
  first_.clock.Jump(seconds(60));
  Pass(seconds(5), &first_);
  EXPECT_EQ(State(), AgentState::kOnline);
}

TEST_F(MaintainTest, LosesSilentAgentsThoughTheClockGoesBack) {
  Pass(seconds(35), &first_);  // after the time to return
  first_.clock.Jump(-hours(1));
  second_.clock.Jump(-hours(1));
  Pass(seconds(12), nullptr);
  EXPECT_EQ(State(), AgentState::kGone);
}

TEST_F(MaintainTest, GivesAgentsTimeToReturnAfterAStart) {
  // Nobody could hear of the agent for an hour.
  Host restarted(*store_, 1'003'600'000);
  ASSERT_TRUE(restarted.coordinator->upkeep.Maintain());
  // As 10,000 do over TLS, some of which take longer than the timeout.
  for (int s = 0; s < kReturnMs / 1'000; ++s) {
    restarted.clock.Advance(seconds(1));
    ASSERT_TRUE(restarted.coordinator->upkeep.Maintain());
  }
  EXPECT_EQ(State(), AgentState::kOnline);
  for (int s = 0; s < 3; ++s) {
    restarted.clock.Advance(seconds(1));
    ASSERT_TRUE(restarted.coordinator->upkeep.Maintain());
  }
  EXPECT_EQ(State(), AgentState::kGone);
}

TEST_F(MaintainTest, GivesAgentsOfAnotherCoordinatorTimeToReturn) {
  const auto all = [&](Host* heard, seconds time) {
    for (seconds passed{0}; passed < time; ++passed) {
      first_.clock.Advance(seconds(1));
      for (int i = 0; heard != nullptr && i < kManyAgents; ++i) {
        v1::HeartbeatRequest beat;
        beat.set_agent_id(fmt::format("{}", i));
        ASSERT_TRUE(heard->coordinator->agents.Heartbeat(beat));
      }
      for (Host* host : {&second_, &first_}) {
        if (host == &first_ || heard != nullptr) {
          ASSERT_TRUE(host->coordinator->upkeep.Maintain());
        }
      }
    }
  };
  for (int i = 0; i < kManyAgents; ++i) {
    v1::RegisterRequest request;
    request.set_agent_id(fmt::format("{}", i));
    ASSERT_TRUE(second_.coordinator->agents.Register(request));
  }
  const auto gone = [&] {
    return std::ranges::count(*store_->agents.ListAgents(), AgentState::kGone,
                              &AgentRecord::state);
  };
  all(&second_, seconds(35));
  EXPECT_EQ(gone(), 1);                      // "a"
  all(nullptr, seconds(kReturnMs / 1'000));  // it was killed
  EXPECT_EQ(gone(), 1);
  all(nullptr, seconds(15));
  EXPECT_EQ(gone(), kManyAgents + 1);
}

TEST_F(MaintainTest, KeepsAgentsWhileItRefusesHeartbeats) {
  Pass(seconds(5), &first_);
  for (int s = 0; s < 60; ++s) {
    ++first_.coordinator->context.activity.heartbeats_refused;
    first_.clock.Advance(seconds(1));
    ASSERT_TRUE(first_.coordinator->upkeep.Maintain());
  }
  EXPECT_EQ(State(), AgentState::kOnline);
  Pass(seconds(12), nullptr);
  EXPECT_EQ(State(), AgentState::kGone);
}

TEST_F(MaintainTest, HasDevicesAskForWorkLessOftenTheMoreThereAre) {
  std::vector<DeviceRecord> devices(2'000);
  for (DeviceRecord& device : devices) {
    device.id = fmt::format("GPU-{}", &device - devices.data());
    device.kind = {"TEST", 1, 1_GiB, "test-1.0"};
  }
  AgentRecord agent;
  agent.id = "a";
  const auto poll_after = [&] {
    v1::LeaseTasksRequest request;
    request.set_agent_id("a");
    request.set_device_id("GPU-0");
    return first_.coordinator->measuring.LeaseTasks(request)->poll_after_ms();
  };
  ASSERT_TRUE(
      store_->agents.RegisterAgent(agent, std::span(devices).first(10), 1));
  Pass(seconds(1), &first_);
  EXPECT_EQ(poll_after(), CoordinatorOptions().poll_after_ms);
  ASSERT_TRUE(store_->agents.RegisterAgent(agent, devices, 1));
  Pass(seconds(1), &first_);
  EXPECT_EQ(poll_after(), 1'000 * 2'000 / kMaxPollsPerSecond);
}

TEST_F(MaintainTest, TakesNewOptionsWhileItRuns) {
  CoordinatorOptions options;
  options.agent_timeout_ms = 100'000;
  first_.coordinator->context.Reconfigure(options);
  second_.coordinator->context.Reconfigure(options);
  Pass(seconds(20), nullptr);
  EXPECT_EQ(State(), AgentState::kOnline);
}

}  // namespace
}  // namespace ucudnn
