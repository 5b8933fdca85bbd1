// Agents and their devices.

#include "tests/contract/store_contract.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_P(StoreContract, RefusesAnAgentThatIsOnlineOnAnotherMachine) {
  AgentRecord first = TestAgent("a");
  first.machine_id = "1111";
  AgentRecord second = first;
  second.machine_id = "2222";
  ASSERT_TRUE(store().agents.RegisterAgent(first, {}, 100));
  ASSERT_TRUE(store().agents.RegisterAgent(first, {}, 100));
  const AgentRegistration both[] = {{TestAgent("b"), {}, 200},
                                    {second, {}, 200}};
  const Status refused = store().agents.RegisterAgents(both);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kAlreadyExists);
  for (const char* word : {"'a'", "1111", "2222", "id ="}) {
    EXPECT_THAT(refused.error().message, HasSubstr(word));
  }
  EXPECT_EQ(store().agents.GetAgent("a")->machine_id, "1111");
  EXPECT_EQ(store().agents.GetAgent("b").error().code, Code::kNotFound);
  // Of an older version.
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), {}, 300));
  ASSERT_TRUE(store().agents.RegisterAgent(first, {}, 300));
  // A machine that was replaced.
  ASSERT_TRUE(store().agents.SetAgentState("a", AgentState::kGone, "stopped"));
  ASSERT_TRUE(store().agents.RegisterAgent(second, {}, 400));
  EXPECT_EQ(store().agents.GetAgent("a")->machine_id, "2222");
}

TEST_P(StoreContract, RegistersAnAgentWithItsDevices) {
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-2", 1),
                                             TestDevice("GPU-1", 0)};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 100));
  const AgentRecord agent = store().agents.GetAgent("a").value();
  EXPECT_EQ(agent.host, "node1");
  EXPECT_EQ(agent.version, "0.1.0");
  EXPECT_EQ(agent.state, AgentState::kOnline);
  EXPECT_EQ(agent.registered_ms, 100);
  EXPECT_EQ(agent.last_seen_ms, 100);

  DeviceRecord expected = TestDevice("GPU-1", 0);
  expected.agent = "a";
  expected.last_seen_ms = 100;
  EXPECT_EQ(store().agents.GetDevice("GPU-1").value(), expected);
  const auto listed = store().agents.ListDevices("").value();
  ASSERT_THAT(listed, SizeIs(2));
  EXPECT_EQ(listed[0], expected);
  EXPECT_EQ(listed[1].id, "GPU-2");
  EXPECT_THAT(store().agents.ListDevices(ToString(TestKind(1))).value(),
              SizeIs(1));
  EXPECT_THAT(store().agents.ListDevices("none").value(), IsEmpty());
}

TEST_P(StoreContract, KeepsAnAgentsFirstRegistrationTime) {
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), {}, 100));
  AgentRecord newer = TestAgent("a");
  newer.version = "0.2.0";
  ASSERT_TRUE(store().agents.RegisterAgent(newer, {}, 200));
  const AgentRecord agent = store().agents.GetAgent("a").value();
  EXPECT_EQ(agent.registered_ms, 100);
  EXPECT_EQ(agent.last_seen_ms, 200);
  EXPECT_EQ(agent.version, "0.2.0");
  EXPECT_THAT(store().agents.ListAgents().value(), SizeIs(1));
}

TEST_P(StoreContract, LosesDevicesThatAnAgentNoLongerNames) {
  const std::vector<DeviceRecord> both = {TestDevice("GPU-1"),
                                          TestDevice("GPU-2")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), both, 100));
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"),
                                           std::span(both).first(1), 200));
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->state, DeviceState::kIdle);
  EXPECT_EQ(store().agents.GetDevice("GPU-2")->state, DeviceState::kLost);
  EXPECT_THAT(store().agents.GetDevice("GPU-2")->reason,
              HasSubstr("no longer reports it"));
  // After a move to another host, the device belongs to that agent.
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("b"),
                                           std::span(both).last(1), 300));
  EXPECT_EQ(store().agents.GetDevice("GPU-2")->agent, "b");
  EXPECT_EQ(store().agents.GetDevice("GPU-2")->state, DeviceState::kIdle);
}

TEST_P(StoreContract, RegistersAllOrNothing) {
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-1"),
                                             TestDevice("\xC0\xAF")};
  EXPECT_EQ(
      store().agents.RegisterAgent(TestAgent("a"), devices, 100).error().code,
      Code::kInvalidArgument);
  EXPECT_EQ(store().agents.GetAgent("a").error().code, Code::kNotFound);
  EXPECT_THAT(store().agents.ListDevices("").value(), IsEmpty());
}

TEST_P(StoreContract, AcceptsHeartbeatsOnlyFromRegisteredAgents) {
  EXPECT_THAT(Beat("a", {}, 100), ElementsAre("a"));
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-1"),
                                             TestDevice("GPU-2")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 100));
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("b"), {}, 100));
  const std::vector<DeviceStatus> busy = {
      {"GPU-1", DeviceState::kBusy, "another job"}};
  EXPECT_THAT(Beat("a", busy, 200), IsEmpty());
  EXPECT_EQ(store().agents.GetAgent("a")->last_seen_ms, 200);
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->state, DeviceState::kBusy);
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->reason, "another job");
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->last_seen_ms, 200);
  EXPECT_EQ(store().agents.GetDevice("GPU-2")->last_seen_ms, 100);
  // One from an unknown agent is ignored.
  const std::vector<DeviceStatus> wrong = {{"GPU-1", DeviceState::kLost, "x"}};
  EXPECT_THAT(Beat("b", wrong, 300), IsEmpty());
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->state, DeviceState::kBusy);
}

TEST_P(StoreContract, ExpiresSilentAgentsUntilTheyAreHeardAgain) {
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-1")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 100));
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("b"), {}, 200));
  Enqueue(store(), {TestTask(1)});
  Lease(store(), 1, 100, "a");
  const auto pulses = store().agents.ListAgentPulses().value();
  ASSERT_THAT(pulses, SizeIs(2));
  // b is heard of again, in the same millisecond.
  EXPECT_THAT(Beat("b", {}, 200), IsEmpty());
  EXPECT_THAT(store().agents.ExpireAgents(pulses).value(), ElementsAre("a"));
  EXPECT_THAT(store().agents.ExpireAgents(pulses).value(), IsEmpty());
  EXPECT_THAT(store().agents.ListAgentPulses().value(),
              ElementsAre(Field(&Pulse::id, "b")));
  EXPECT_EQ(store().agents.GetAgent("a")->state, AgentState::kGone);
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->state, DeviceState::kLost);
  // Another device need not await the end of its lease.
  EXPECT_THAT(Problems(Lease(store(), 1, 100, "b")), ElementsAre("forward-c1"));
  const std::vector<DeviceStatus> idle = {{"GPU-1", DeviceState::kIdle, ""}};
  EXPECT_THAT(Beat("a", idle, 300), IsEmpty());
  EXPECT_EQ(store().agents.GetAgent("a")->state, AgentState::kOnline);
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->state, DeviceState::kIdle);
}

TEST_P(StoreContract, AcceptsHeartbeatsOfManyAgentsAtOnce) {
  const std::vector<DeviceRecord> one = {TestDevice("GPU-1")};
  const std::vector<DeviceRecord> two = {TestDevice("GPU-2")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), one, 100));
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("b"), two, 100));
  const std::vector<AgentBeat> beats = {
      {"z", {}, 200},
      {"b", {{"GPU-2", DeviceState::kBusy, "who"}}, 200},
      {"a", {{"GPU-1", DeviceState::kIdle, ""}}, 300},
      {"c", {{"GPU-1", DeviceState::kLost, "not its own"}}, 200}};
  EXPECT_THAT(store().agents.Heartbeat(beats).value(), ElementsAre("c", "z"));
  EXPECT_EQ(store().agents.GetAgent("a")->last_seen_ms, 300);
  EXPECT_EQ(store().agents.GetAgent("b")->last_seen_ms, 200);
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->state, DeviceState::kIdle);
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->last_seen_ms, 300);
  EXPECT_EQ(store().agents.GetDevice("GPU-2")->reason, "who");
  EXPECT_THAT(store().agents.Heartbeat({}).value(), IsEmpty());
}

TEST_P(StoreContract, HoldsAgentsUntilTheyAreResumed) {
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-1")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 100));
  EXPECT_FALSE(store().agents.GetAgent("a")->hold.has_value());
  const HoldRecord drain{.what = "drain",
                         .who = "alice",
                         .reason = "a new fan",
                         .since_ms = 150,
                         .deadline_ms = 900};
  const ActionRecord action{.made_ms = 150,
                            .who = "alice",
                            .what = "drain",
                            .object = "node a",
                            .reason = "a new fan",
                            .outcome = ""};
  HoldRecord cordon = drain;
  cordon.what = "cordon";
  ASSERT_TRUE(store().agents.HoldAgent("a", cordon, action, false));
  ASSERT_TRUE(store().agents.HoldAgent("a", drain, action, false));
  // A restart changes nothing.
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 200));
  EXPECT_EQ(store().agents.GetAgent("a")->state, AgentState::kOnline);
  EXPECT_EQ(store().agents.ListAgents()->at(0).hold, drain);
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->hold, drain);
  EXPECT_EQ(store().agents.ListKinds()->at(0).usable, 0);
  ASSERT_TRUE(store().agents.HoldAgent("a", std::nullopt, action, false));
  EXPECT_FALSE(store().agents.GetAgent("a")->hold.has_value());
  EXPECT_EQ(store().agents.ListDevices("")->at(0).hold, std::nullopt);
  EXPECT_EQ(store().agents.ListKinds()->at(0).usable, 1);
  EXPECT_THAT(store().actions.ListActions(9, 0).value(), SizeIs(3));
  EXPECT_EQ(store().agents.HoldAgent("b", drain, action, false).error().code,
            Code::kNotFound);
}

TEST_P(StoreContract, LeavesTheHoldsOfOthersToThem) {
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-1")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 100));
  HoldRecord own;
  own.what = "cordon";
  own.who = "agent a";
  HoldRecord drain;
  drain.what = "drain";
  drain.who = "alice";
  ActionRecord by_agent;
  by_agent.who = own.who;
  ActionRecord by_alice;
  by_alice.who = drain.who;
  ASSERT_TRUE(store().agents.HoldAgent("a", own, by_agent, true));
  ASSERT_TRUE(store().agents.HoldAgent("a", std::nullopt, by_agent, true));
  ASSERT_TRUE(store().agents.HoldAgent("a", own, by_agent, true));
  ASSERT_TRUE(store().agents.HoldAgent("a", drain, by_alice, false));
  for (const auto& wanted : {std::optional(own), std::optional<HoldRecord>()}) {
    EXPECT_EQ(
        store().agents.HoldAgent("a", wanted, by_agent, true).error().code,
        Code::kPermissionDenied);
  }
  EXPECT_EQ(store().agents.GetAgent("a")->hold, drain);
  EXPECT_THAT(store().actions.ListActions(9, 0).value(), SizeIs(4));
}

TEST_P(StoreContract, DeletesAnAgentThatIsGone) {
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-1")};
  const std::vector<DeviceRecord> others = {TestDevice("GPU-2")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 100));
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("b"), others, 100));
  ActionRecord action;
  action.who = "alice";
  HoldRecord drain;
  drain.what = "drain";
  ASSERT_TRUE(store().agents.HoldAgent("a", drain, action, false));
  EXPECT_EQ(store().agents.DeleteAgent("a", action).error().code,
            Code::kFailedPrecondition);
  ASSERT_TRUE(store().agents.SetAgentState("a", AgentState::kGone, "it ended"));
  ASSERT_TRUE(store().agents.DeleteAgent("a", action));
  EXPECT_EQ(store().agents.DeleteAgent("a", action).error().code,
            Code::kNotFound);
  EXPECT_THAT(store().agents.ListAgents().value(), SizeIs(1));
  ASSERT_THAT(store().agents.ListDevices("").value(), SizeIs(1));
  EXPECT_EQ(store().agents.ListDevices("")->at(0).id, "GPU-2");
  EXPECT_THAT(store().actions.ListActions(9, 0).value(), SizeIs(2));
  // It may come back, and is not held then.
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 200));
  EXPECT_FALSE(store().agents.GetAgent("a")->hold.has_value());
}

TEST_P(StoreContract, RemembersWhyAnAgentIsGone) {
  const std::vector<DeviceRecord> devices = {TestDevice("GPU-1")};
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 100));
  ASSERT_TRUE(store().agents.SetAgentState("a", AgentState::kGone, "it ended"));
  EXPECT_EQ(store().agents.GetDevice("GPU-1")->reason, "it ended");
  EXPECT_EQ(
      store().agents.SetAgentState("b", AgentState::kGone, "").error().code,
      Code::kNotFound);
}

TEST_P(StoreContract, SummarizesDeviceKinds) {
  std::vector<DeviceRecord> devices = {
      TestDevice("GPU-1", 0), TestDevice("GPU-2", 0), TestDevice("GPU-3", 1)};
  devices[1].state = DeviceState::kLost;
  ASSERT_TRUE(store().agents.RegisterAgent(TestAgent("a"), devices, 100));
  const auto kinds = store().agents.ListKinds().value();
  ASSERT_THAT(kinds, SizeIs(2));
  EXPECT_EQ(kinds[0].kind, TestKind(0));
  EXPECT_EQ(kinds[0].devices, 2);
  EXPECT_EQ(kinds[0].usable, 1);
  EXPECT_EQ(kinds[1].devices, 1);
  EXPECT_EQ(store().agents.CountDevices().value(), 2);
}

TEST_P(StoreContract, RegistersManyAgentsAtOnce) {
  const std::vector<AgentRegistration> registrations = {
      {TestAgent("b"), {TestDevice("GPU-2"), TestDevice("GPU-1", 1)}, 5},
      {TestAgent("a"), {}, 6},
      {TestAgent("c"), {TestDevice("GPU-3")}, 7}};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(store().agents.RegisterAgents(registrations));
    EXPECT_EQ(store().agents.ListAgents()->size(), 3U);
    EXPECT_EQ(store().agents.GetAgent("c")->last_seen_ms, 7);
    EXPECT_EQ(store().agents.CountDevices(), 3);
    EXPECT_EQ(store().agents.GetDevice("GPU-1")->agent, "b");
    EXPECT_EQ(store().agents.GetDevice("GPU-1")->kind, TestKind(1));
    EXPECT_EQ(store().agents.GetDevice("GPU-3")->last_seen_ms, 7);
  }
  EXPECT_TRUE(store().agents.RegisterAgents({}));
}

TEST_P(StoreContract, RegistersAllAgentsOrNone) {
  const std::vector<AgentRegistration> same_agent = {{TestAgent("a"), {}, 1},
                                                     {TestAgent("a"), {}, 2}};
  const std::vector<AgentRegistration> same_device = {
      {TestAgent("a"), {TestDevice("GPU-1")}, 1},
      {TestAgent("b"), {TestDevice("GPU-1")}, 2}};
  const std::vector<AgentRegistration> no_id = {{TestAgent("a"), {}, 1},
                                                {TestAgent(""), {}, 2}};
  for (const auto& registrations : {same_agent, same_device, no_id}) {
    const Status status = store().agents.RegisterAgents(registrations);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  }
  EXPECT_TRUE(store().agents.ListAgents()->empty());
}

}  // namespace
}  // namespace ucudnn
