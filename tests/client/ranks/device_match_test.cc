#include "client/ranks/device_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RankSight Seeing(std::vector<std::string> gpus,
                 const std::string& wish = "auto", int current = -1) {
  RankSight sight;
  sight.host = "node1";
  sight.wish = ParseDeviceWish(wish).value();
  sight.gpus = std::move(gpus);
  sight.current = current;
  return sight;
}

// The UUID that each rank is given; "" for the CPU.
std::vector<std::string> Given(const std::vector<RankSight>& ranks) {
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
  // The launcher shows each rank its own as number 0.
  EXPECT_THAT(Given({Seeing({"GPU-a"}), Seeing({"GPU-b"})}),
              ElementsAre("GPU-a", "GPU-b"));
  // Others order them otherwise.
  EXPECT_THAT(Given({Seeing({"GPU-b", "GPU-a"}), Seeing({"GPU-a", "GPU-b"})}),
              ElementsAre("GPU-b", "GPU-a"));
}

TEST(DeviceMatchTest, LeavesTheOnlyGpuOfOneRankToIt) {
  EXPECT_THAT(Given({Seeing({"GPU-a", "GPU-b", "GPU-c"}),
                     Seeing({"GPU-a", "GPU-b"}), Seeing({"GPU-a"})}),
              ElementsAre("GPU-c", "GPU-b", "GPU-a"));
}

TEST(DeviceMatchTest, KeepsWhatARankAsksForOrWorksOn) {
  EXPECT_THAT(Given({Seeing({"GPU-a", "GPU-b"}),
                     Seeing({"GPU-a", "GPU-b"}, "auto", 0)}),
              ElementsAre("GPU-b", "GPU-a"));
  EXPECT_THAT(Given({Seeing({"GPU-a", "GPU-b"}, "gpu:1"),
                     Seeing({"GPU-a", "GPU-b"}, "GPU-b"),
                     Seeing({"GPU-a", "GPU-b"}, "cpu")}),
              ElementsAre("GPU-b", "GPU-b", ""));
}

TEST(DeviceMatchTest, SpreadsRanksThatHaveToShare) {
  const RankSight both = Seeing({"GPU-a", "GPU-b"});
  EXPECT_THAT(Given({both, both, both, both}),
              ElementsAre("GPU-a", "GPU-b", "GPU-a", "GPU-b"));
}

TEST(DeviceMatchTest, SharesTheCpuOfAHostAmongItsRanks) {
  RankSight elsewhere = Seeing({});
  elsewhere.host = "node2";
  const auto choices =
      ChooseDevices({Seeing({}), elsewhere, Seeing({}, "cpu:4")}).value();
  EXPECT_EQ(choices[0], (DeviceChoice{-1, 2, 0, 0}));
  EXPECT_EQ(choices[1], (DeviceChoice{-1, 1, 0, 0}));
  EXPECT_EQ(choices[2], (DeviceChoice{-1, 2, 1, 4}));
}

TEST(DeviceMatchTest, NamesTheRankThatAsksForWhatItDoesNotSee) {
  EXPECT_THAT(Given({Seeing({"GPU-a"}), Seeing({"GPU-a"}, "gpu:1")}),
              ElementsAre("rank 1: there is no GPU 1; it sees 1, counted from "
                          "0"));
  EXPECT_THAT(Given({Seeing({}, "GPU-x")}),
              ElementsAre("rank 0: it does not see GPU-x; it sees no GPU"));
}

TEST(DeviceMatchTest, ReadsWishes) {
  EXPECT_EQ(ParseDeviceWish("cpu:3")->threads, 3);
  EXPECT_EQ(ParseDeviceWish("gpu:7")->ordinal, 7);
  EXPECT_EQ(ParseDeviceWish("GPU-1-2")->uuid, "GPU-1-2");
  for (const char* bad :
       {"", "gpu", "gpu:", "gpu:-1", "gpu:x", "cpu:0", "tpu"}) {
    const auto wish = ParseDeviceWish(bad);
    ASSERT_FALSE(wish) << bad;
    EXPECT_EQ(wish.error().code, Code::kInvalidArgument);
    EXPECT_THAT(wish.error().message, HasSubstr("cpu:THREADS"));
  }
}

}  // namespace
}  // namespace ucudnn
