#include "client/cli/profile_csv.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "base/profile.h"

namespace ucudnn::ctl {
namespace {

using ::testing::HasSubstr;

constexpr const char* kProblem =
    "forward-c1-h4w4-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW";

v1::Profile SmallProfile() {
  v1::Profile profile;
  profile.set_id("NVIDIA H200/132u/139GiB/cudnn-9.19");
  v1::ProblemProfile& problem = *profile.add_problems();
  problem.set_problem(kProblem);
  for (const std::int64_t batch : {4, 8}) {
    v1::Measurement& m = *problem.add_measurements();
    m.set_batch(batch);
    m.set_algorithm("jit:avx2, blocked");
    m.set_math("FMA");
    m.set_precision("FP32");
    m.set_workspace_bytes(1 << 20);
    m.set_time_ns(1234567);
    m.set_spread_ns(89);
    m.set_repeats(7);
    m.set_min_ns(1234000);
    m.set_p90_ns(1240000);
    m.set_enqueue_ns(56000);
    m.set_device("GPU-1");
    m.set_driver("580.1, CUDA 13.0, 1980 MHz, 700 W");
    m.set_measured_ms(1700000000000);
    m.mutable_clocks()->set_sm_mhz(1755);
    m.mutable_clocks()->set_memory_mhz(3201);
    m.mutable_clocks()->set_throttle("power cap");
  }
  v1::CompleteBatch& complete = *problem.add_complete();
  complete.set_batch(8);
  complete.set_max_workspace_bytes(1 << 30);
  complete.set_driver("580.1, CUDA 13.0, 1980 MHz, 700 W");
  return profile;
}

TEST(ProfileCsvTest, ReadsBackWhatItWrites) {
  const auto back = ProfilesFromCsv(ProfilesToCsv({SmallProfile()}), "p.csv");
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), 1U);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      back->front(), SmallProfile()))
      << back->front().DebugString();
}

TEST(ProfileCsvTest, IsAProfileForSolversToo) {
  const auto profile =
      ParseProfileCsv(ProfilesToCsv({SmallProfile()}), "p.csv");
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_EQ(profile->kernels.size(), 1U);
  EXPECT_EQ(profile->kernels[0].id.layer, kProblem);
  EXPECT_EQ(profile->kernels[0].points.size(), 2U);
}

TEST(ProfileCsvTest, SaysWhatIsWrong) {
  const auto error = [](std::string text) {
    return ProfilesFromCsv(text, "p.csv").error().message;
  };
  EXPECT_THAT(error("device,network\nx,y\n"), HasSubstr("problem"));
  std::string csv = ProfilesToCsv({SmallProfile()});
  csv.replace(csv.find(",1755,"), 6, ",fast,");
  EXPECT_THAT(error(csv), HasSubstr("p.csv:2"));
  EXPECT_THAT(error(csv), HasSubstr("sm_clock_mhz"));
}

}  // namespace
}  // namespace ucudnn::ctl
