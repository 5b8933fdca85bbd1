#include "coordinator/heartbeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "coordinator/store/store.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kLeaseMs = 1000;

class HeartbeatsTest : public ::testing::Test {
 protected:
  HeartbeatsTest()
      : store_(OpenStore("sqlite::memory:").value()),
        heartbeats_(*store_, *store_) {
    Register(100);
  }

  void Register(UnixMillis now_ms) {
    const auto guard = heartbeats_.Forget("a");
    AgentRecord agent;
    agent.id = "a";
    DeviceRecord device;
    device.id = "d";
    device.kind.model = "k";
    ASSERT_TRUE(store_->RegisterAgent(agent, std::span(&device, 1), now_ms));
  }
  Status Take(UnixMillis now_ms, DeviceState state = DeviceState::kIdle,
              const std::vector<LeaseRef>& leases = {},
              const std::string& agent = "a") {
    return heartbeats_.Take({agent, {{"d", state, ""}}, now_ms}, leases,
                            kLeaseMs);
  }
  UnixMillis Seen() { return store_->GetAgent("a")->last_seen_ms; }

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
  EXPECT_EQ(store_->GetDevice("d")->state, DeviceState::kBusy);
  // Older gathered heartbeats do not overwrite it.
  ASSERT_TRUE(heartbeats_.Flush(kLeaseMs));
  EXPECT_EQ(store_->GetDevice("d")->state, DeviceState::kBusy);
}

TEST_F(HeartbeatsTest, RenewsLeases) {
  NewTask task;
  task.key = {.kind = "k", .problem = "p", .batch = BatchSize(1)};
  ASSERT_TRUE(store_->EnqueueTasks(std::span(&task, 1), 100));
  const auto leased = store_->LeaseTasks({.kind = "k",
                                          .agent = "a",
                                          .device = "d",
                                          .max_count = 1,
                                          .now_ms = 100,
                                          .until_ms = 1100});
  ASSERT_EQ(leased->size(), 1U);
  const LeaseRef lease = leased->front().lease();
  const auto until = [&] {
    return store_->GetTask(lease.task)->lease_until_ms;
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
  {
    const auto guard = heartbeats_.Forget("a");
    heartbeats_.Registered("a", {{"d", DeviceState::kIdle, ""}});
  }
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
    ASSERT_TRUE(store_->RegisterAgent(agent, {}, 100));
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
    EXPECT_EQ(store_->GetAgent(name(i))->last_seen_ms, 200);
  }
}

TEST_F(HeartbeatsTest, ForgetsTheGatheredHeartbeatsOfAnAgentThatLeft) {
  ASSERT_TRUE(Take(200));
  ASSERT_TRUE(Take(300));
  {
    const auto guard = heartbeats_.Forget("a");
    ASSERT_TRUE(store_->SetAgentState("a", AgentState::kGone, "it left"));
  }
  ASSERT_TRUE(heartbeats_.Flush(kLeaseMs));
  EXPECT_EQ(store_->GetAgent("a")->state, AgentState::kGone);
  // Its next heartbeat is written at once.
  ASSERT_TRUE(Take(400));
  EXPECT_EQ(store_->GetAgent("a")->state, AgentState::kOnline);
}

}  // namespace
}  // namespace ucudnn
