// Device models as agents report them and others read them.

#include "coordinator/measuring/device_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/coordinator.h"
#include "proto/convert.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

using test::kKind;

class DeviceModelsTest : public ::testing::Test {
 protected:
  DeviceModelsTest() {
    Register("a", "d", "driver 1");
    Register("b", "e", "driver 1");
  }

  void Register(const std::string& agent, const std::string& device,
                const std::string& driver) {
    v1::RegisterRequest request;
    request.set_agent_id(agent);
    v1::Device& d = *request.add_devices();
    d.set_id(device);
    d.set_kind(kKind);
    *d.mutable_kind_details() = ToProto(ParseDeviceKind(kKind).value());
    d.set_driver(driver);
    d.set_state("idle");
    ASSERT_TRUE(coordinator_.agents.Register(request));
  }
  bool IsAsked(const std::string& agent, const std::string& device,
               bool takes = true) {
    v1::LeaseTasksRequest request;
    request.set_agent_id(agent);
    request.set_device_id(device);
    request.set_takes_device_models(takes);
    return coordinator_.measuring.LeaseTasks(request)->measure_device_model();
  }
  // Reports the model of the K40 with this launch.
  Status Report(const std::string& agent, const std::string& device,
                const std::string& driver, std::int64_t launch_ns) {
    v1::ReportDeviceModelRequest request;
    request.set_agent_id(agent);
    request.set_device_id(device);
    request.set_driver(driver);
    *request.mutable_model() = ToProto(DeviceModelPreset("K40").value());
    request.mutable_model()->set_launch_ns(launch_ns);
    const auto response = coordinator_.measuring.ReportDeviceModel(request);
    if (!response) return tl::unexpected<Error>(response.error());
    return {};
  }
  Result<v1::MeasuredDeviceModel> Get() {
    v1::GetRequest request;
    request.set_id(kKind);
    return coordinator_.measuring.GetDeviceModel(request);
  }

  FakeClock clock_{1000};
  std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
};

TEST_F(DeviceModelsTest, AreAskedForUntilOneIsKnownUnderTheDriver) {
  EXPECT_FALSE(IsAsked("a", "d", /*takes=*/false));
  EXPECT_TRUE(IsAsked("a", "d"));
  EXPECT_TRUE(IsAsked("b", "e"));
  ASSERT_TRUE(Report("a", "d", "driver 1", 10));
  EXPECT_FALSE(IsAsked("a", "d"));
  EXPECT_FALSE(IsAsked("b", "e"));
  Register("b", "e", "driver 2");
  EXPECT_TRUE(IsAsked("b", "e"));
  EXPECT_FALSE(IsAsked("a", "d"));
}

TEST_F(DeviceModelsTest, TheLastOneIsTheKinds) {
  EXPECT_EQ(Get().error().code, Code::kNotFound);
  EXPECT_THAT(Get().error().message, HasSubstr(kKind));
  ASSERT_TRUE(Report("a", "d", "driver 1", 10));
  clock_.Advance(std::chrono::milliseconds(1000));
  ASSERT_TRUE(Report("b", "e", "driver 2", 20));
  const auto newest = Get();
  ASSERT_TRUE(newest) << newest.error().message;
  EXPECT_EQ(newest->model().name(), kKind);
  EXPECT_EQ(newest->model().launch_ns(), 20);
  EXPECT_EQ(newest->device(), "e");
  EXPECT_EQ(newest->driver(), "driver 2");
  EXPECT_EQ(newest->measured_ms(), 2000);
}

TEST_F(DeviceModelsTest, ArePartOfTheKindsProfile) {
  ASSERT_TRUE(Report("a", "d", "driver 1", 10));
  v1::GetProfileRequest profile_request;
  profile_request.set_id(kKind);
  const auto profile = coordinator_.measuring.GetProfile(profile_request);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->device_model().model().launch_ns(), 10);

  auto elsewhere = OpenStore("sqlite::memory:").value();
  Coordinator other(CoordinatorOptions(), *elsewhere, clock_);
  ASSERT_TRUE(other.measuring.PutProfile(*profile));
  v1::GetRequest request;
  request.set_id(kKind);
  EXPECT_EQ(other.measuring.GetDeviceModel(request)->SerializeAsString(),
            Get()->SerializeAsString());
}

TEST_F(DeviceModelsTest, RefuseStrangersAndNonsense) {
  EXPECT_EQ(Report("a", "e", "driver 1", 10).error().code, Code::kNotFound);
  EXPECT_EQ(Report("a", "x", "driver 1", 10).error().code, Code::kNotFound);
  const Status negative = Report("a", "d", "driver 1", -1);
  EXPECT_EQ(negative.error().code, Code::kInvalidArgument);
  EXPECT_THAT(negative.error().message,
              HasSubstr("device_model: launch_us is -0.001"));
  EXPECT_TRUE(IsAsked("a", "d"));
}

}  // namespace
}  // namespace ucudnn
