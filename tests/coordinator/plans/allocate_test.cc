// Free devices for jobs, from stored measurements.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "coordinator/limits.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "tests/support/paths.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

constexpr char kFastDevice[] = "FAST/1u/1GiB/test-1.0";
constexpr char kSlowDevice[] = "SLOW/1u/1GiB/test-1.0";

class AllocateTest : public ::testing::Test {
 protected:
  AllocateTest() {
    UCUDNN_CHECK(coordinator_.networks.PutNetwork(test::PutTiny()).has_value());
    PutProfile(kFastDevice, 10);
    PutProfile(kSlowDevice, 20);
  }

  // Powers of two, all at so many microseconds for each image.
  void PutProfile(const std::string& kind, std::int64_t us) {
    constexpr std::array<std::int64_t, 7> kBatches = {1, 2, 4, 8, 16, 32, 64};
    UCUDNN_CHECK(
        coordinator_.measuring.PutProfile(test::Measured(kind, us, kBatches))
            .has_value());
  }

  static v1::JobToAllocate Job(const std::string& name) {
    v1::JobToAllocate job;
    job.set_name(name);
    job.mutable_plan()->set_network("tiny");
    job.mutable_plan()->set_batch(12);
    return job;
  }

  // One fast device, and two that take twice as long.
  static v1::AllocateRequest TwoJobs() {
    v1::AllocateRequest request;
    *request.add_jobs() = Job("a");
    *request.add_jobs() = Job("b");
    v1::DeviceCount& fast = *request.add_devices();
    fast.set_kind(kFastDevice);
    fast.set_count(1);
    v1::DeviceCount& slow = *request.add_devices();
    slow.set_kind(kSlowDevice);
    slow.set_count(2);
    return request;
  }

  Error ErrorOf(const v1::AllocateRequest& request) {
    const auto answer = coordinator_.plans.Allocate(request);
    EXPECT_FALSE(answer);
    return answer ? Error() : answer.error();
  }

  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  FakeClock clock_{1000};
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
};

TEST_F(AllocateTest, AllotsFromStoredMeasurements) {
  const auto answer = coordinator_.plans.Allocate(TwoJobs());
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->goal(), "share");
  EXPECT_TRUE(answer->optimal());
  EXPECT_DOUBLE_EQ(answer->objective(), 0.5);
  ASSERT_EQ(answer->jobs_size(), 2);
  for (const v1::AllocatedJob& job : answer->jobs()) {
    EXPECT_DOUBLE_EQ(job.share(), 0.5);
    // 6, 3 and 3 images on all three devices; two operations.
    EXPECT_EQ(job.alone_ns(), 2 * 60'000);
    EXPECT_EQ(job.step_ns(), 2 * 120'000);
    std::int64_t images = 0;
    for (const v1::AllocatedRank& rank : job.ranks()) images += rank.batch();
    EXPECT_EQ(images, 12);
  }
}

TEST_F(AllocateTest, CountsWhatAStepTakesBesidesConvolutions) {
  v1::AllocateRequest request = TwoJobs();
  request.mutable_jobs(0)->set_fixed_ns(1'000'000);
  const auto answer = coordinator_.plans.Allocate(request);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_GT(answer->jobs(0).step_ns(), 1'000'000);
  // It hardly gains from devices, so the other job gets the fast one.
  EXPECT_EQ(answer->jobs(1).devices(0).kind(), kFastDevice);
}

TEST_F(AllocateTest, SaysThatItDoesNotCountOtherTasks) {
  v1::AllocateRequest request = TwoJobs();
  EXPECT_EQ(coordinator_.plans.Allocate(request)->notes_size(), 0);
  const std::string model =
      ReadNetworkContents(test::DataPath("onnx/alexnet.onnx"), {}).value();
  ASSERT_TRUE(coordinator_.networks.PutNetwork(test::PutTiny(model)));
  constexpr std::array<std::int64_t, 7> kBatches = {1, 2, 4, 8, 16, 32, 64};
  for (const char* kind : {kFastDevice, kSlowDevice}) {
    ASSERT_TRUE(coordinator_.measuring.PutProfile(
        test::Measured(kind, 10, kBatches, model)));
  }
  request.mutable_jobs(1)->set_fixed_ns(1000);
  const auto answer = coordinator_.plans.Allocate(request);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->notes_size(), 1);
  EXPECT_THAT(answer->notes(0),
              HasSubstr("job 'a': times count convolutions only"));
}

TEST_F(AllocateTest, UsesNoKindOnWhichNothingWasMeasured) {
  v1::AllocateRequest request = TwoJobs();
  v1::DeviceCount& other = *request.add_devices();
  other.set_kind("OTHER/1u/1GiB/test-1.0");
  other.set_count(5);
  const auto answer = coordinator_.plans.Allocate(request);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_DOUBLE_EQ(answer->objective(), 0.5);
  ASSERT_EQ(answer->notes_size(), 2);
  EXPECT_THAT(answer->notes(0), HasSubstr("job 'a' uses no OTHER"));
}

TEST_F(AllocateTest, OffersTheIdleDevicesIfNoneAreNamed) {
  v1::RegisterRequest request;
  request.set_agent_id("agent");
  for (const char* id : {"idle-1", "idle-2", "busy"}) {
    v1::Device& device = *request.add_devices();
    device.set_id(id);
    device.set_kind(kSlowDevice);
    v1::DeviceKind& kind = *device.mutable_kind_details();
    kind.set_model("SLOW");
    kind.set_units(1);
    kind.set_memory_bytes(std::int64_t{1} << 30);
    kind.set_library("test-1.0");
    device.set_state(std::string(id) == "busy" ? "busy" : "idle");
  }
  const auto registered = coordinator_.agents.Register(request);
  ASSERT_TRUE(registered) << registered.error().message;
  v1::AllocateRequest jobs = TwoJobs();
  jobs.clear_devices();
  const auto answer = coordinator_.plans.Allocate(jobs);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->devices_size(), 1);
  EXPECT_EQ(answer->devices(0).kind(), kSlowDevice);
  EXPECT_EQ(answer->devices(0).count(), 2);
  // A cordoned node's devices are not to be had.
  v1::HoldAgentRequest hold;
  hold.set_agent_id("agent");
  hold.set_what("cordon");
  ASSERT_TRUE(coordinator_.jobs.HoldAgent(hold));
  EXPECT_THAT(ErrorOf(jobs).message, HasSubstr("no device is idle"));
}

TEST_F(AllocateTest, RefusesJobsThatCannotAllRun) {
  v1::AllocateRequest request = TwoJobs();
  request.mutable_jobs(0)->set_least_devices(3);
  const Error error = ErrorOf(request);
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message, HasSubstr("do not suffice for all jobs"));
}

TEST_F(AllocateTest, NamesWhatIsMissing) {
  v1::AllocateRequest request = TwoJobs();
  request.clear_devices();
  EXPECT_THAT(ErrorOf(request).message, HasSubstr("no device is idle"));
  request = TwoJobs();
  request.mutable_jobs(1)->mutable_plan()->set_network("unknown");
  EXPECT_EQ(ErrorOf(request).code, Code::kNotFound);
  request = TwoJobs();
  request.mutable_jobs(1)->mutable_plan()->set_precision("TF32");
  request.mutable_devices(0)->set_kind("OTHER/1u/1GiB/test-1.0");
  request.mutable_devices(1)->set_kind("THIRD/1u/1GiB/test-1.0");
  EXPECT_THAT(ErrorOf(request).message,
              HasSubstr("measured on none of the kinds"));
}

TEST_F(AllocateTest, BoundsWhatItIsAskedFor) {
  const auto refusal = [&](const auto& change) {
    v1::AllocateRequest request = TwoJobs();
    change(&request);
    const Error error = ErrorOf(request);
    EXPECT_EQ(error.code, Code::kInvalidArgument) << error.message;
    return error.message;
  };
  EXPECT_THAT(refusal([](auto* r) {
                for (int i = 0; i < kMaxJobsToAllocate; ++i) {
                  *r->add_jobs() = Job(std::to_string(i));
                }
              }),
              HasSubstr("jobs: their number: 66 is given; 1 to 64"));
  EXPECT_THAT(refusal([](auto* r) { r->clear_jobs(); }),
              HasSubstr("jobs: their number: 0"));
  EXPECT_THAT(refusal([](auto* r) { r->mutable_devices(0)->set_count(1025); }),
              HasSubstr("devices.count: 1025 is given; 0 to 1024"));
  EXPECT_THAT(refusal([](auto* r) { r->mutable_devices(0)->set_count(1024); }),
              HasSubstr("devices: their number: 1026"));
  EXPECT_THAT(
      refusal([](auto* r) { r->mutable_devices(0)->set_kind(kSlowDevice); }),
      HasSubstr("comes twice"));
  EXPECT_THAT(refusal([](auto* r) {
                r->mutable_jobs(0)->mutable_plan()->set_batch(3'000'000);
              }),
              HasSubstr("more than 4000000 times"));
  EXPECT_THAT(refusal([](auto* r) { r->mutable_jobs(0)->set_name("b"); }),
              HasSubstr("the name of another job"));
  EXPECT_THAT(refusal([](auto* r) { r->mutable_jobs(0)->set_weight(-1); }),
              HasSubstr("weight: -1"));
  EXPECT_THAT(refusal([](auto* r) { r->mutable_jobs(0)->set_fixed_ns(-1); }),
              HasSubstr("negative"));
  EXPECT_THAT(refusal([](auto* r) { r->mutable_jobs(0)->add_exchange_ns(1); }),
              HasSubstr("1 communication times for up to 3 devices"));
  EXPECT_THAT(refusal([](auto* r) { r->set_goal("best"); }),
              HasSubstr("goal: 'best'"));
  EXPECT_THAT(refusal([](auto* r) { r->set_time_limit_ms(10'001); }),
              HasSubstr("time_limit_ms: 10001 is given; 0 to 10000"));
  EXPECT_THAT(
      refusal([](auto* r) {
        r->mutable_jobs(0)->mutable_plan()->add_device_kinds(kSlowDevice);
      }),
      HasSubstr("device_kinds"));
  EXPECT_THAT(refusal([](auto* r) {
                r->mutable_jobs(0)->mutable_plan()->mutable_memory();
              }),
              HasSubstr("plan.memory is not supported"));
}

}  // namespace
}  // namespace ucudnn
