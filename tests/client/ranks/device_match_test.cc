#include "client/ranks/device_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

VisibleDevices Seeing(std::vector<std::string> gpus,
                      const std::string& request = "auto", int current = -1) {
  VisibleDevices devices;
  devices.host = "node1";
  devices.request = ParseDeviceRequest(request).value();
  devices.gpus = std::move(gpus);
  devices.current = current;
  return devices;
}

// The UUID of each rank's GPU; "" for the CPU.
std::vector<std::string> Given(const std::vector<VisibleDevices>& ranks) {
  const auto choices = ChooseDevices(ranks);
  if (!choices) return {choices.error().message};
  std::vector<std::string> given;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const int gpu = (*choices)[r].gpu;
    given.push_back(gpu < 0 ? ""
                            : ranks[r].gpus[static_cast<std::size_t>(gpu)]);
  }
  return given;
}

TEST(DeviceMatchTest, GivesEveryRankAGpuOfItsOwn) {
  EXPECT_THAT(Given({Seeing({"GPU-a", "GPU-b"}), Seeing({"GPU-a", "GPU-b"})}),
              ElementsAre("GPU-a", "GPU-b"));
  // The launcher shows each rank its own GPU as number 0.
  EXPECT_THAT(Given({Seeing({"GPU-a"}), Seeing({"GPU-b"})}),
              ElementsAre("GPU-a", "GPU-b"));
  // Or it shows them in different orders.
  EXPECT_THAT(Given({Seeing({"GPU-b", "GPU-a"}), Seeing({"GPU-a", "GPU-b"})}),
              ElementsAre("GPU-b", "GPU-a"));
}

TEST(DeviceMatchTest, LeavesARankItsOnlyGpu) {
  EXPECT_THAT(Given({Seeing({"GPU-a", "GPU-b", "GPU-c"}),
                     Seeing({"GPU-a", "GPU-b"}), Seeing({"GPU-a"})}),
              ElementsAre("GPU-c", "GPU-b", "GPU-a"));
}

TEST(DeviceMatchTest, KeepsTheGpuThatARankRequestsOrUses) {
  EXPECT_THAT(Given({Seeing({"GPU-a", "GPU-b"}),
                     Seeing({"GPU-a", "GPU-b"}, "auto", 0)}),
              ElementsAre("GPU-b", "GPU-a"));
  EXPECT_THAT(Given({Seeing({"GPU-a", "GPU-b"}, "gpu:1"),
                     Seeing({"GPU-a", "GPU-b"}, "GPU-b"),
                     Seeing({"GPU-a", "GPU-b"}, "cpu")}),
              ElementsAre("GPU-b", "GPU-b", ""));
}

TEST(DeviceMatchTest, SpreadsRanksThatHaveToShare) {
  const VisibleDevices both = Seeing({"GPU-a", "GPU-b"});
  EXPECT_THAT(Given({both, both, both, both}),
              ElementsAre("GPU-a", "GPU-b", "GPU-a", "GPU-b"));
}

TEST(DeviceMatchTest, SharesTheCpuOfAHostAmongItsRanks) {
  VisibleDevices elsewhere = Seeing({});
  elsewhere.host = "node2";
  const auto choices =
      ChooseDevices({Seeing({}), elsewhere, Seeing({}, "cpu:4")}).value();
  EXPECT_EQ(choices[0], (DeviceChoice{-1, 2, 0, 0}));
  EXPECT_EQ(choices[1], (DeviceChoice{-1, 1, 0, 0}));
  EXPECT_EQ(choices[2], (DeviceChoice{-1, 2, 1, 4}));
}

TEST(DeviceMatchTest, NamesTheRankThatRequestsAnInvisibleGpu) {
  EXPECT_THAT(
      Given({Seeing({"GPU-a"}), Seeing({"GPU-a"}, "gpu:1")}),
      ElementsAre(
          "rank 1: there is no gpu:1; this rank sees 1, counted from 0"));
  EXPECT_THAT(Given({Seeing({}, "gpu:0")}),
              ElementsAre("rank 0: there is no gpu:0; this rank sees no GPU"));
  EXPECT_THAT(
      Given({Seeing({}, "GPU-x")}),
      ElementsAre("rank 0: this rank does not see GPU-x; it sees no GPU"));
}

TEST(DeviceMatchTest, ReadsDeviceRequests) {
  EXPECT_EQ(ParseDeviceRequest("cpu:3")->threads, 3);
  EXPECT_EQ(ParseDeviceRequest("gpu:7")->ordinal, 7);
  EXPECT_EQ(ParseDeviceRequest("GPU-1-2")->uuid, "GPU-1-2");
  for (const char* bad :
       {"", "gpu", "gpu:", "gpu:-1", "gpu:x", "cpu:0", "tpu"}) {
    const auto request = ParseDeviceRequest(bad);
    ASSERT_FALSE(request) << bad;
    EXPECT_EQ(request.error().code, Code::kInvalidArgument);
    EXPECT_THAT(request.error().message, HasSubstr("cpu:THREADS"));
  }
}

}  // namespace
}  // namespace ucudnn
