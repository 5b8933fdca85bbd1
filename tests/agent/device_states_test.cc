#include "agent/device_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

v1::Device Described(const DeviceStates& states, std::size_t device) {
  v1::Device description;
  states.Describe(device, &description);
  return description;
}

google::protobuf::RepeatedPtrField<v1::Task> Tasks(
    std::initializer_list<std::int64_t> ids) {
  google::protobuf::RepeatedPtrField<v1::Task> tasks;
  for (const std::int64_t id : ids) {
    v1::Task& task = *tasks.Add();
    task.set_id(id);
    task.set_lease_token(10 * id);
    task.add_known();
  }
  return tasks;
}

TEST(DeviceStatesTest, ALostDeviceIsNotBusy) {
  DeviceStates states(2);
  EXPECT_EQ(Described(states, 0).state(), "idle");
  states.SetBusyWith(0, "process 7");
  EXPECT_EQ(Described(states, 0).state(), "busy");
  EXPECT_EQ(Described(states, 0).state_reason(), "process 7");
  states.Lose(0, "it fell off the bus");
  EXPECT_EQ(Described(states, 0).state(), "lost");
  EXPECT_EQ(Described(states, 0).state_reason(), "it fell off the bus");
  EXPECT_EQ(Described(states, 1).state(), "idle");
}

TEST(DeviceStatesTest, FailsOnceAllAreLost) {
  DeviceStates states(2);
  states.Lose(0, "first");
  EXPECT_TRUE(states.IsLost(0));
  EXPECT_TRUE(states.CheckAnyLeft());
  states.Lose(1, "second");
  const Status status = states.CheckAnyLeft();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kDataLoss);
  EXPECT_THAT(status.error().message, HasSubstr("second"));
}

TEST(DeviceStatesTest, HeartbeatsNameTheLeasesThatAreLeft) {
  DeviceStates states(1);
  auto tasks = Tasks({1, 2, 3});
  tasks[1].mutable_cross_check()->set_id(4);  // is not leased
  states.SetLeases(0, tasks);
  states.DropLease(0, 1);
  v1::HeartbeatRequest beat;
  states.AddLeases(0, &beat);
  ASSERT_EQ(beat.leases_size(), 1);
  EXPECT_EQ(beat.leases(0).task_id(), 3);
  EXPECT_EQ(beat.leases(0).lease_token(), 30);

  const std::vector<v1::Task> taken = states.TakeLeases(0);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].known_size(), 0);
  EXPECT_TRUE(states.TakeLeases(0).empty());
}

TEST(DeviceStatesTest, RegisteringAsksForAModelAgain) {
  DeviceStates states(1);
  states.SetRegistered(0, "driver 1");
  EXPECT_FALSE(states.HasMeasuredModel(0));
  states.SetMeasuredModel(0);
  EXPECT_TRUE(states.HasMeasuredModel(0));
  states.SetRegistered(0, "driver 2");
  EXPECT_FALSE(states.HasMeasuredModel(0));
  EXPECT_EQ(states.RegisteredWith(0), "driver 2");
}

}  // namespace
}  // namespace ucudnn
