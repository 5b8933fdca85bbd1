#include "coordinator/agents/heartbeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "coordinator/stores.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kLeaseMs = 1000;

class HeartbeatsTest : public ::testing::Test {
 protected:
  HeartbeatsTest()
      : store_(OpenStore("sqlite::memory:").value()),
        heartbeats_(store_->agents) {
    // Registered before this process began.
    const AgentRegistration registration = Registration("a", "d", 100);
    EXPECT_TRUE(store_->agents.RegisterAgents({&registration, 1}));
  }

  static AgentRegistration Registration(const std::string& agent,
                                        const std::string& device,
                                        UnixMillis now_ms) {
    AgentRegistration registration;
    registration.agent.id = agent;
    registration.devices.emplace_back().id = device;
    registration.devices.back().kind.model = "k";
    registration.now_ms = now_ms;
    return registration;
  }
  Status Take(UnixMillis now_ms, DeviceState state = DeviceState::kIdle,
              const std::vector<LeaseRef>& leases = {},
              const std::string& agent = "a") {
    return heartbeats_.Take({agent, {{"d", state, ""}}, now_ms}, leases,
                            kLeaseMs);
  }
  UnixMillis Seen() { return store_->agents.GetAgent("a")->last_seen_ms; }

  std::unique_ptr<Store> store_;
  Heartbeats heartbeats_;
};

TEST_F(HeartbeatsTest, GathersHeartbeatsThatSayNothingNew) {
  ASSERT_TRUE(Take(200));
  EXPECT_EQ(Seen(), 200);  // the first
  ASSERT_TRUE(Take(300));
  ASSERT_TRUE(Take(400));
  EXPECT_EQ(Seen(), 200);
  ASSERT_TRUE(heartbeats_.Flush(kLeaseMs));
  EXPECT_EQ(Seen(), 400);
  ASSERT_TRUE(heartbeats_.Flush(kLeaseMs));
  EXPECT_EQ(Seen(), 400);
}

TEST_F(HeartbeatsTest, WritesANewStateAtOnce) {
  ASSERT_TRUE(Take(200));
  ASSERT_TRUE(Take(300));
  ASSERT_TRUE(Take(400, DeviceState::kBusy));
  EXPECT_EQ(Seen(), 400);
  EXPECT_EQ(store_->agents.GetDevice("d")->state, DeviceState::kBusy);
  // Older gathered heartbeats do not overwrite it.
  ASSERT_TRUE(heartbeats_.Flush(kLeaseMs));
  EXPECT_EQ(store_->agents.GetDevice("d")->state, DeviceState::kBusy);
}

TEST_F(HeartbeatsTest, RenewsLeases) {
  NewTask task;
  task.key = {.kind = "k", .problem = "p", .batch = BatchSize(1)};
  ASSERT_TRUE(store_->tasks.EnqueueTasks(std::span(&task, 1), {}, 100));
  const auto leased = store_->tasks.LeaseTasks({.kind = "k",
                                                .agent = "a",
                                                .device = "d",
                                                .max_count = 1,
                                                .now_ms = 100,
                                                .until_ms = 1100});
  ASSERT_EQ(leased->size(), 1U);
  const LeaseRef lease = leased->front().lease();
  const auto until = [&] {
    return store_->tasks.GetTask(lease.task)->lease_until_ms;
  };
  ASSERT_TRUE(Take(200, DeviceState::kIdle, {lease}));
  EXPECT_EQ(until(), 200 + kLeaseMs);
  ASSERT_TRUE(Take(500, DeviceState::kIdle, {lease}));
  EXPECT_EQ(until(), 200 + kLeaseMs);
  ASSERT_TRUE(heartbeats_.Flush(kLeaseMs));
  EXPECT_EQ(until(), 500 + kLeaseMs);
}

TEST_F(HeartbeatsTest, RefusesAgentsThatAreNotRegistered) {
  for (int i = 0; i < 2; ++i) {
    const Status status = Take(200, DeviceState::kIdle, {}, "b");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kNotFound);
  }
}

TEST_F(HeartbeatsTest, GathersTheFirstOfAnAgentThatHasJustRegistered) {
  ASSERT_TRUE(heartbeats_.Register(Registration("a", "d", 100)));
  ASSERT_TRUE(Take(200));
  EXPECT_EQ(Seen(), 100);
  ASSERT_TRUE(Take(300, DeviceState::kBusy));
  EXPECT_EQ(Seen(), 300);
}

TEST_F(HeartbeatsTest, AnswersEachOfManyThatComeAtOnce) {
  constexpr int kAgents = 200;
  const auto name = [](int i) { return fmt::format("agent-{:03}", i); };
  for (int i = 0; i < kAgents; i += 2) {
    AgentRecord agent;
    agent.id = name(i);
    ASSERT_TRUE(store_->agents.RegisterAgent(agent, {}, 100));
  }
  std::atomic<int> next = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = next++; i < kAgents; i = next++) {
        EXPECT_EQ(Take(200, DeviceState::kIdle, {}, name(i)).has_value(),
                  i % 2 == 0);
      }
    });
  }
  threads.clear();
  for (int i = 0; i < kAgents; i += 2) {
    EXPECT_EQ(store_->agents.GetAgent(name(i))->last_seen_ms, 200);
  }
}

TEST_F(HeartbeatsTest, RegistersEachOfManyThatComeAtOnce) {
  constexpr int kAgents = 200;
  const auto agent = [](int i) { return fmt::format("agent-{:03}", i % 150); };
  std::atomic<int> next = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      // Some come twice, and each fifth device's id is refused.
      for (int i = next++; i < kAgents; i = next++) {
        const std::string device = i % 5 == 0 ? "" : agent(i) + "-gpu";
        const Status status =
            heartbeats_.Register(Registration(agent(i), device, 200));
        EXPECT_EQ(status.has_value(), i % 5 != 0);
        if (status) continue;
        EXPECT_EQ(status.error().code, Code::kInvalidArgument);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(store_->agents.ListAgents()->size(), 1U + 120U);
  EXPECT_EQ(store_->agents.CountDevices(), 1 + 120);
}

TEST_F(HeartbeatsTest, HandsADeviceToTheAgentThatRegisteredItLast) {
  ASSERT_TRUE(heartbeats_.Register(Registration("b", "e", 200)));
  ASSERT_TRUE(heartbeats_.Register(Registration("c", "e", 201)));
  EXPECT_EQ(store_->agents.GetDevice("e")->agent, "c");
}

TEST_F(HeartbeatsTest, ForgetsWhatWasGatheredOfAnAgentThatRegistersAgain) {
  ASSERT_TRUE(Take(200));
  ASSERT_TRUE(Take(300));
  ASSERT_TRUE(heartbeats_.Register(Registration("a", "other", 400)));
  ASSERT_TRUE(heartbeats_.Flush(kLeaseMs));
  EXPECT_EQ(Seen(), 400);
  EXPECT_EQ(store_->agents.GetDevice("d")->state, DeviceState::kLost);
}

TEST_F(HeartbeatsTest, ForgetsTheGatheredHeartbeatsOfAnAgentThatLeft) {
  ASSERT_TRUE(Take(200));
  ASSERT_TRUE(Take(300));
  {
    const auto guard = heartbeats_.Forget("a");
    ASSERT_TRUE(
        store_->agents.SetAgentState("a", AgentState::kGone, "it left"));
  }
  ASSERT_TRUE(heartbeats_.Flush(kLeaseMs));
  EXPECT_EQ(store_->agents.GetAgent("a")->state, AgentState::kGone);
  // Its next heartbeat is written at once.
  ASSERT_TRUE(Take(400));
  EXPECT_EQ(store_->agents.GetAgent("a")->state, AgentState::kOnline);
}

}  // namespace
}  // namespace ucudnn
