#include "client/cli/profile_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/other_tasks.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two layers of one geometry, and the first one reads the network's input.
Network Twins() {
  return ParseNetworkCsv(
             "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
             "a,4,8,8,4,3,3,1,1,1,1,1\n"
             "b,4,8,8,4,3,3,1,1,1,1,1\n",
             "twins", "twins.csv")
      .value();
}

Profile TwinsProfile(const std::string& rows) {
  return ParseProfileCsv(
             "device,network,layer,op,precision,layout,batch,algorithm,math,"
             "workspace_bytes,time_us,spread_us,driver\n" +
                 rows,
             "p.csv")
      .value();
}

std::vector<std::string> NamesOf(const Profile& profile) {
  std::vector<std::string> names;
  for (const KernelProfile& kernel : profile.kernels) {
    names.push_back(LabelOf(kernel.id));
  }
  return names;
}

TEST(ProfileNetworkTest, FindsProblemsByLayerAndOperation) {
  const auto found = WithProblems(
      TwinsProfile("g,x,b,forward,FP32,NCHW,2,A,FMA,0,5,1,d1\n"
                   "g,x,a,backward_data,FP32,NCHW,2,A,FMA,0,6,1,d1\n"
                   "g,x,b,forward,TF32,NCHW,2,A,TENSOR,0,3,1,d2\n"),
      Twins());
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_THAT(
      NamesOf(*found),
      ElementsAre("b forward FP32", "a backward_data FP32", "b forward TF32"));
  EXPECT_EQ(ToString(*found->kernels[0].problem),
            "forward-c4-h8w8-k4-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW");
  // Nothing trains on it, but somebody has measured it.
  EXPECT_EQ(found->kernels[1].problem->op, ConvOp::kBackwardData);
  EXPECT_THAT(found->kernels[0].points, SizeIs(1));
  // A request for TF32 admits FP32 algorithms.
  const KernelProfile& tf32 = found->kernels[2];
  EXPECT_EQ(tf32.problem->precision, Precision::kTf32);
  ASSERT_THAT(tf32.points, SizeIs(2));
  ASSERT_THAT(tf32.origins, SizeIs(2));
  EXPECT_EQ(tf32.points[0].algorithm.math, "FMA");
  EXPECT_EQ(tf32.origins[0].driver, "d1");
  EXPECT_EQ(tf32.points[1].algorithm.math, "TENSOR");
  EXPECT_EQ(tf32.origins[1].driver, "d2");
}

TEST(ProfileNetworkTest, NamesTheLayerThatTheNetworkDoesNotHave) {
  const auto found = WithProblems(
      TwinsProfile("g,x,c,forward,FP32,NCHW,2,A,FMA,0,5,1,d\n"), Twins());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kInvalidArgument);
  EXPECT_THAT(found.error().message,
              HasSubstr("network 'twins' has no layer 'c'; it has a, b"));
}

TEST(ProfileNetworkTest, GivesEachLayerWhatIsKnownOfItsProblem) {
  Profile by_problem =
      WithProblems(
          TwinsProfile("g,x,a,forward,FP32,NCHW,2,A,FMA,0,5,1,d\n"
                       "g,x,a,backward_data,FP32,NCHW,2,A,FMA,0,6,1,d\n"),
          Twins())
          .value();
  by_problem.kernels[0].complete[BatchSize(2)] = {1_GiB, "d"};
  const Profile by_layer = ForNetwork(by_problem, Twins(), "");
  EXPECT_THAT(NamesOf(by_layer), ElementsAre("a forward FP32", "b forward FP32",
                                             "b backward_data FP32"));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(by_layer.kernels[i].id.network, "twins");
    EXPECT_EQ(by_layer.kernels[i].points, by_problem.kernels[0].points);
    EXPECT_EQ(by_layer.kernels[i].origins, by_problem.kernels[0].origins);
    EXPECT_EQ(by_layer.kernels[i].complete, by_problem.kernels[0].complete);
  }
}

TEST(ProfileNetworkTest, KeepsTheNetworksOtherTasks) {
  const std::string hash(64, 'a');
  const OtherTasks own = {.network = hash, .momentum = true};
  const OtherTasks of_another = {.network = std::string(64, 'b')};
  Profile profile;
  for (const OtherTasks& tasks : {own, of_another}) {
    profile.others.emplace_back().id.layer = ToString(tasks);
  }
  const Profile exported = ForNetwork(profile, Twins(), hash);
  ASSERT_THAT(exported.others, SizeIs(1));
  EXPECT_EQ(exported.others[0].id.layer, ToString(own));
  const auto imported = WithProblems(exported, Twins());
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_THAT(imported->others, SizeIs(1));
}

}  // namespace
}  // namespace ucudnn
