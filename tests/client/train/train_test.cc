// The training program as a user runs it: real ranks with parts of the CPU, and
// real files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/train/checkpoint.h"
#ifdef UCUDNN_WITH_ONNX
#include "tests/base/onnx/models.h"
#endif
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn::train {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// The difference that rounding explains over the few steps of these tests.
constexpr double kRounding = 1e-5;

double LargestDifference(const Json& a, const Json& b) {
  EXPECT_EQ(a["losses"].size(), b["losses"].size());
  double largest = 0;
  for (std::size_t i = 0; i < a["losses"].size(); ++i) {
    const double x = a["losses"][i];
    const double y = b["losses"][i];
    largest = std::max(largest, std::abs(x - y) / x);
  }
  return largest;
}

std::vector<std::int64_t> BatchesOf(const Json& report) {
  std::vector<std::int64_t> batches;
  for (const Json& rank : report["ranks"]) batches.push_back(rank["batch"]);
  return batches;
}

// That each rank keeps to its budget.
void ExpectWithin(const Json& report,
                  const std::vector<std::int64_t>& budgets) {
  for (std::size_t r = 0; r < budgets.size(); ++r) {
    const Json& rank = report["ranks"][r];
    if (rank["batch"] == 0) continue;
    EXPECT_LE(rank["peak_bytes"], budgets[r]) << r;
    EXPECT_EQ(rank["budget_bytes"], budgets[r]);
  }
}

class TrainTest : public ::testing::Test {
 protected:
  TrainTest() {
    std::ofstream(folder_ / "net.csv")
        << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
           "a,3,16,16,8,3,3,1,1,1,1,1\n"
           "b,8,16,16,8,3,3,1,1,1,1,1\n"
           "c,8,8,8,10,1,1,0,0,1,1,1\n";
    for (const auto& [name, channels, pixels] :
         {std::tuple("mnist", 1, 28), {"cifar10", 3, 32}}) {
      std::ofstream(folder_ / (name + std::string(".csv")))
          << "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
          << fmt::format("a,{0},{1},{1},8,5,5,0,0,2,2,1\n", channels, pixels)
          << fmt::format("b,8,{0},{0},10,{0},{0},0,0,1,1,1\n",
                         (pixels - 5) / 2 + 1);
    }
  }

  std::map<std::string, std::string> Environment() const {
    return {{"UCUDNN_CACHE_DIR", folder_ / "cache"},
            {"UCUDNN_COORDINATOR", ""},
            {"UCUDNN_PLAN_FILE", ""},
            {"CUDA_VISIBLE_DEVICES", ""},
            // Threads that spin at every barrier slow busy machines down.
            {"OMP_WAIT_POLICY", "passive"}};
  }

  std::vector<std::string> Command(std::vector<std::string> more) const {
    std::vector<std::string> command = {test::ProgramPath("ucudnn-train"),
                                        "--threads", "1"};
    if (std::ranges::find(more, "--network") == more.end()) {
      command.insert(command.end(), {"--network", folder_ / "net.csv"});
    }
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  // Standard output as JSON, which must be all of it; null if it is not JSON.
  Json Train(int ranks, const std::vector<std::string>& arguments) {
    const std::string out = folder_ / "out.json";
    std::ofstream(out).close();
    std::vector<std::string> command = {"sh", "-c", "exec \"$@\" >>" + out,
                                        "sh"};
    for (std::string& word : Command(arguments)) {
      command.push_back(std::move(word));
    }
    command.insert(command.end(), {"-o", "json"});
    std::vector<std::string> environment;
    for (const auto& [name, value] : Environment()) {
      environment.push_back(name + "=" + value);
    }
    run_ = RunRanks(ranks, command, environment, folder_ / "log");
    const std::string text = test::FileText(out);
    return text.empty() ? Json() : Json::parse(text, nullptr, false);
  }

  // Runs one process, without mpirun.
  test::Finished TrainAlone(const std::vector<std::string>& arguments) {
    return test::Run(Command(arguments), Environment());
  }

  // A folder with an image of MNIST.
  std::string OneImage() const {
    const std::string count{0, 0, 0, 1};
    const std::string size{0, 0, 0, 28};
    std::ofstream(folder_ / "train-images-idx3-ubyte")
        << std::string{0, 0, 8, 3} + count + size + size +
               std::string(28 * 28, '\1');
    std::ofstream(folder_ / "train-labels-idx1-ubyte")
        << std::string{0, 0, 8, 1} + count + std::string(1, '\1');
    return folder_.path();
  }

  test::TemporaryFolder folder_;
  RankedRun run_;
};

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kFewSteps = {"--batch", "16", "--steps", "5"};

TEST_F(TrainTest, LearnsTheSameOnUnlikeRanksAsInOneProcess) {
  const Words steps = kFewSteps + Words{"--seed", "2", "--rate", "0.01"};
  const Json alone = Train(1, steps);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(alone["losses"].back(), alone["losses"].front());
  EXPECT_EQ(alone["ranks"][0]["policy"], "baseline");
  const std::int64_t needed = alone["ranks"][0]["peak_bytes"];

  const std::vector<std::int64_t> budgets = {300 << 10, 150 << 10, 90 << 10};
  const Json together = Train(
      3, steps + Words{"--memory-budget", "300KiB,150KiB,90KiB", "--recompute",
                       "--offload-weights", "--poison", "--task-times"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(together["source"], "measured here") << together["reason"];
  EXPECT_THAT(together["sum_method"].get<std::string>(),
              HasSubstr("the gradients are in host memory"));
  EXPECT_LT(LargestDifference(alone, together), kRounding);
  EXPECT_THAT(BatchesOf(together), Each(::testing::Gt(0)));
  ExpectWithin(together, budgets);
  EXPECT_GT(needed, budgets[0]);
  for (const Json& rank : together["ranks"]) {
    EXPECT_GT(rank["task_times"]["operators"].size(), 2U);
    EXPECT_GT(rank["predicted_us"], 0);
  }
}

TEST_F(TrainTest, LeavesOutARankWithoutRoom) {
  const Json alone = Train(1, kFewSteps);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json together =
      Train(3, kFewSteps + Words{"--memory-budget", "1MiB,1KiB,1MiB"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(LargestDifference(alone, together), kRounding);
  EXPECT_EQ(together["ranks"][1]["batch"], 0);
  EXPECT_THAT(together["ranks"][1]["why"].get<std::string>(),
              HasSubstr("left out"));
}

TEST_F(TrainTest, LearnsTheSameOnUnlikeThreadsPlannedAndEvenlySplit) {
  const Words common = {"--batch", "15", "--steps", "5", "--threads", "2,1"};
  const Json planned = Train(2, common);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(planned["split"], "planned");
  EXPECT_NE(planned["ranks"][0]["device_kind"],
            planned["ranks"][1]["device_kind"]);
  EXPECT_THAT(planned["reason"].get<std::string>(),
              HasSubstr("2 kinds of device"));
  const Json even = Train(2, common + Words{"--even"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(even["split"], "even");
  EXPECT_EQ(BatchesOf(even), (std::vector<std::int64_t>{8, 7}));
  EXPECT_LT(LargestDifference(planned, even), kRounding);
  const Json given = Train(2, common + Words{"--shares", "4,11"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(given["split"], "given");
  EXPECT_EQ(BatchesOf(given), (std::vector<std::int64_t>{4, 11}));
  EXPECT_LT(LargestDifference(planned, given), kRounding);
}

// One rank of a kind measures for all.
TEST_F(TrainTest, TakesUnevenSharesOnTwoDevicesOfAKind) {
  const Words common = {"--batch", "16", "--steps", "2", "--threads", "1,1"};
  for (const char* shares : {"12,4", "4,12"}) {
    const Json given = Train(2, common + Words{"--shares", shares});
    ASSERT_EQ(run_.exit_status, 0) << run_.output;
    EXPECT_EQ(given["split"], "given");
  }
}

TEST_F(TrainTest, EvaluatesFewerImagesThanItTrainsAtOnce) {
  for (const char* images : {"1", "4", "15"}) {
    const Json report = Train(1, kFewSteps + Words{"--evaluate", images});
    ASSERT_EQ(run_.exit_status, 0) << run_.output;
    EXPECT_EQ(report["evaluation"]["labels"], 64 * std::stoi(images));
  }
}

TEST_F(TrainTest, RunsOneTaskAtATimeOnACpuAndSaysWhy) {
  const Json one = Train(1, kFewSteps);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_FALSE(one["ranks"][0].contains("streams"));
  const Json asked = Train(1, kFewSteps + Words{"--streams", "2"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(LargestDifference(one, asked), kRounding);
  const Json& rank = asked["ranks"][0];
  EXPECT_EQ(rank["streams"]["asked"], 2);
  EXPECT_EQ(rank["streams"]["kept"], 1);
  EXPECT_TRUE(rank["streams"]["alone_us"].is_null());
  EXPECT_THAT(rank["streams"]["why"].get<std::string>(),
              HasSubstr("runs one task at a time"));
  EXPECT_EQ(rank["steps_us"].size(), 1U);
}

TEST_F(TrainTest, RefusesOtherNumbersOfStreams) {
  for (const char* streams : {"0", "5", "-1", "two"}) {
    const test::Finished run =
        TrainAlone({"--batch", "8", "--streams", streams});
    EXPECT_EQ(run.status, 2) << streams;
    EXPECT_THAT(run.err, AllOf(HasSubstr("--streams"), HasSubstr(streams)));
  }
}

#ifdef UCUDNN_WITH_ONNX
// Two normalisations, one of them in a residual block.
class TrainNormalisedTest : public TrainTest {
 protected:
  TrainNormalisedTest() {
    std::ofstream(folder_ / "norm.onnx")
        << test::OnnxModel(
               "g (float[N,3,16,16] x, float[8,3,3,3] w1, float[8] s1,"
               "float[8] t1, float[8] m1, float[8] v1, float[8,8,3,3] w2,"
               "float[8] s2, float[8] t2, float[8] m2, float[8] v2,"
               "float[10,8] wf, float[10] bf) => (float[N,10] y) {"
               "c1 = Conv<pads=[1,1,1,1]>(x, w1)"
               "n1 = BatchNormalization(c1, s1, t1, m1, v1)"
               "r1 = Relu(n1)"
               "c2 = Conv<pads=[1,1,1,1]>(r1, w2)"
               "n2 = BatchNormalization(c2, s2, t2, m2, v2)"
               "a = Add(n2, r1)  r2 = Relu(a)  p = GlobalAveragePool(r2)"
               "f = Flatten(p)  y = Gemm<transB=1>(f, wf, bf) }")
               .SerializeAsString();
    common_ = kFewSteps + Words{"--network", folder_ / "norm.onnx"};
  }

  Words common_;
};

TEST_F(TrainNormalisedTest, TakesStatisticsOverTheWholeMiniBatch) {
  const Json alone = Train(1, common_);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json together =
      Train(3, common_ + Words{"--memory-budget", "450KiB,250KiB,120KiB",
                               "--recompute", "--offload-weights", "--poison"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(LargestDifference(alone, together), kRounding);
  EXPECT_EQ(together["losses_depend_on_shares"], false);
  EXPECT_THAT(BatchesOf(together), Each(::testing::Gt(0)));
  ExpectWithin(together, {450 << 10, 250 << 10, 120 << 10});
  EXPECT_GT(alone["ranks"][0]["peak_bytes"], 450 << 10);
}

// Layers with windows of all sorts, three of which are split.
class TrainSplitTest : public TrainTest {
 protected:
  TrainSplitTest() {
    Write("whole.onnx",
          "c1 = Conv<pads=[1,1,1,1]>(x, w1)"
          "n1 = BatchNormalization(c1, s1, t1, m1, v1)  r1 = Relu(n1)"
          "c2 = Conv<pads=[1,1,1,1], strides=[2,2]>(r1, w2)  r2 = Relu(c2)"
          "c3 = Conv<pads=[1,1,2,2]>(r2, w3)");
    // In both axes: c3's output of 8 elements is cut before element 4, its
    // input of 8 before 5, and the inputs of c2 and c1, of 16, before 10. c3
    // pads the first part by 1 on each side, and the second by 2.
    std::string parts = "rows0, rows1 = Split<axis=2>(x, at)";
    std::string joins;
    for (const int i : {0, 1}) {
      parts += fmt::format("x{0}0, x{0}1 = Split<axis=3>(rows{0}, at)", i);
      for (const int j : {0, 1}) {
        parts += fmt::format(
            "c1{0}{1} = Conv<pads=[1,1,1,1]>(x{0}{1}, w1)"
            "n1{0}{1} = BatchNormalization(c1{0}{1}, s1, t1, m1, v1)"
            "r1{0}{1} = Relu(n1{0}{1})"
            "c2{0}{1} = Conv<pads=[1,1,0,0], strides=[2,2]>(r1{0}{1}, w2)"
            "r2{0}{1} = Relu(c2{0}{1})"
            "c3{0}{1} = Conv<pads=[{2},{3},{2},{3}]>(r2{0}{1}, w3)",
            i, j, i + 1, j + 1);
      }
      joins += fmt::format("y{0} = Concat<axis=3>(c3{0}0, c3{0}1)", i);
    }
    Write("by_hand.onnx", parts + joins + "c3 = Concat<axis=2>(y0, y1)");
  }

  void Write(const std::string& name, const std::string& layers) const {
    std::ofstream(folder_ / name)
        << test::OnnxModel(
               "g (float[N,3,16,16] x, float[8,3,3,3] w1, float[8] s1,"
               "float[8] t1, float[8] m1, float[8] v1, float[8,8,3,3] w2,"
               "float[6,8,4,4] w3, float[6,6,3,3] w4, float[10,6] wf,"
               "float[10] bf) => (float[N,10] y) <int64[2] at = {10, 6}> {" +
               layers +
               "r3 = Relu(c3)  c4 = Conv<pads=[1,1,1,1]>(r3, w4)"
               "p = GlobalAveragePool(c4)  f = Flatten(p)"
               "y = Gemm<transB=1>(f, wf, bf) }")
               .SerializeAsString();
  }

  Json TrainOn(const std::string& name, int ranks, const Words& more,
               const Words& steps = kFewSteps) {
    return Train(ranks, steps + Words{"--network", folder_ / name} + more);
  }

  // What is saved, in an order that does not depend on names.
  std::vector<float> Saved() const {
    const std::string text = test::FileText(folder_ / "state");
    std::vector<float> values = DecodeCheckpoint(text, "state")->values;
    std::ranges::sort(values);
    return values;
  }
};

TEST_F(TrainSplitTest, TrainsAsANetworkThatIsSplitByHand) {
  const Words saved = {"--checkpoint", folder_ / "state"};
  const Json by_hand = TrainOn("by_hand.onnx", 1, saved);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const std::vector<float> parameters = Saved();
  const Json whole = TrainOn("whole.onnx", 1, {});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_GT(LargestDifference(by_hand, whole), 10 * kRounding);

  const Words split = {"--split", "0.75,2,2"};
  const Json alone = TrainOn("whole.onnx", 1, split + saved);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(alone["network"], "whole (split 0.75,2,2)");
  EXPECT_LT(LargestDifference(by_hand, alone), kRounding);
  // Running statistics among them.
  EXPECT_THAT(Saved(),
              ::testing::Pointwise(::testing::FloatNear(1e-5F), parameters));
  const Json together =
      TrainOn("whole.onnx", 2,
              split + Words{"--memory-budget", "200KiB,120KiB", "--recompute",
                            "--poison"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(LargestDifference(by_hand, together), kRounding);
  EXPECT_THAT(BatchesOf(together), Each(::testing::Gt(0)));
  ExpectWithin(together, {200 << 10, 120 << 10});
  EXPECT_GT(alone["ranks"][0]["peak_bytes"], 200 << 10);
}

TEST_F(TrainSplitTest, DrawsTheSameCutsOnAllRanksAndAfterACheckpoint) {
  // Before rows 7, 8 or 9 of 16.
  const Words split = {"--split", "0.25,2,2,stochastic"};
  const Json alone = TrainOn("whole.onnx", 1, split);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json even = TrainOn("whole.onnx", 1, {"--split", "0.25,2,2"});
  EXPECT_GT(LargestDifference(alone, even), 10 * kRounding);
  const Json together =
      TrainOn("whole.onnx", 2,
              split + Words{"--memory-budget", "300KiB,150KiB", "--poison"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(LargestDifference(alone, together), kRounding);
  EXPECT_THAT(BatchesOf(together), Each(::testing::Gt(0)));
  ExpectWithin(together, {300 << 10, 150 << 10});

  const Words saved = {"--checkpoint", folder_ / "state"};
  (void)TrainOn("whole.onnx", 1, split + saved,
                {"--batch", "16", "--steps", "2"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json rest = TrainOn("whole.onnx", 1, split + saved + Words{"--resume"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  ASSERT_EQ(rest["losses"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(rest["losses"][i], alone["losses"][i + 2],
                kRounding * double{alone["losses"][i + 2]});
  }
  const test::Finished other =
      TrainAlone(kFewSteps + saved +
                 Words{"--resume", "--network", folder_ / "whole.onnx"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("the split must be the same"));
}

// With parameters that training hardly moves: those of the whole network are
// worth as much whether its training is split or not.
TEST_F(TrainSplitTest, EvaluatesTheWholeNetworkOnOtherImages) {
  const Words held_out = {"--rate", "1e-12",           "--evaluate",
                          "37",     "--memory-budget", "500KiB"};
  const Json whole = TrainOn("whole.onnx", 1, held_out);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(whole["evaluation"]["labels"], 37);
  const double loss = whole["evaluation"]["loss"];
  const std::pair<const char*, int> runs[] = {{"0.75,2,2", 2},
                                              {"0.25,2,2,stochastic", 1}};
  for (const auto& [split, ranks] : runs) {
    const Json parts =
        TrainOn("whole.onnx", ranks, held_out + Words{"--split", split});
    ASSERT_EQ(run_.exit_status, 0) << run_.output;
    EXPECT_GT(LargestDifference(whole, parts), 10 * kRounding);
    // Its running statistics are of parts.
    EXPECT_NEAR(parts["evaluation"]["loss"], loss, 0.02 * loss);
    EXPECT_NEAR(parts["evaluation"]["accuracy"],
                whole["evaluation"]["accuracy"], 0.1);
  }
}

// A U-Net over volumes of 4 x 8 x 8, with a convolution that pads depth and
// width more on one side, and both ways up.
TEST_F(TrainTest, LearnsTheSameOfVolumesOnRanksWithLittleMemory) {
  std::ofstream(folder_ / "volumes.onnx")
      << test::OnnxModel(
             "g (float[N,2,4,8,8] x, float[6,2,3,3,3] w1, float[6] s1,"
             "float[6] t1, float[6] m1, float[6] v1, float[8,6,2,3,2] w2,"
             "float[8,8,3,3,3] w3, float[14,4,2,2,2] w4, float[3,10,1,1,1] w5)"
             " => (float[N,3,4,8,8] y)"
             "<float[5] twice = {1.0, 1.0, 2.0, 2.0, 2.0}> {"
             "c1 = Conv<pads=[1,1,1,1,1,1]>(x, w1)"
             "n1 = BatchNormalization(c1, s1, t1, m1, v1)  r1 = Relu(n1)"
             "p1 = MaxPool<kernel_shape=[2,2,2], strides=[2,2,2]>(r1)"
             "c2 = Conv<pads=[0,1,0,1,1,1]>(p1, w2)  r2 = Relu(c2)"
             "p2 = AveragePool<kernel_shape=[2,2,2], strides=[2,2,2]>(r2)"
             "c3 = Conv<pads=[1,1,1,1,1,1]>(p2, w3)  r3 = Relu(c3)"
             "u3 = Resize<mode=\"nearest\","
             "coordinate_transformation_mode=\"asymmetric\","
             "nearest_mode=\"floor\">(r3, , twice)"
             "k2 = Concat<axis=1>(p1, u3)"
             "u2 = ConvTranspose<strides=[2,2,2]>(k2, w4)"
             "k1 = Concat<axis=1>(r1, u2)  y = Conv(k1, w5) }")
             .SerializeAsString();
  const Words volumes = kFewSteps + Words{"--network", folder_ / "volumes.onnx",
                                          "--images",  "16",
                                          "--rate",    "0.1"};
  const Json alone = Train(1, volumes);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(alone["losses"].back(), alone["losses"].front());
  const Json together =
      Train(2, volumes + Words{"--memory-budget", "500KiB,300KiB",
                               "--recompute", "--poison"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(LargestDifference(alone, together), kRounding);
  EXPECT_THAT(BatchesOf(together), Each(::testing::Gt(0)));
  ExpectWithin(together, {500 << 10, 300 << 10});
  EXPECT_GT(alone["ranks"][0]["peak_bytes"], 500 << 10);
}

TEST_F(TrainTest, NamesWhatCannotBeSplit) {
  const test::Finished deep = TrainAlone(kFewSteps + Words{"--split", "0.5,2"});
  EXPECT_EQ(deep.status, 2);
  EXPECT_THAT(deep.err, HasSubstr("--split: '0.5,2'; DEPTH,H,W"));
}

TEST_F(TrainNormalisedTest, TakesThemOverRanksIfAsked) {
  const Json report = Train(2, common_ + Words{"--batch-statistics", "rank"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(report["losses_depend_on_shares"], true);
}

TEST_F(TrainNormalisedTest, LeavesARankOutOfStatisticsToo) {
  const Json alone = Train(1, common_);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json together =
      Train(2, common_ + Words{"--memory-budget", "1KiB,1MiB"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(BatchesOf(together), (std::vector<std::int64_t>{0, 16}));
  EXPECT_EQ(together["ranks"][0]["why"],
            "left out: no batch fits into 1.00 KiB");
  EXPECT_LT(LargestDifference(alone, together), kRounding);
}

// Two ranks update at the end, one as soon as it can.
TEST_F(TrainNormalisedTest, KeepsMeasurementsOfUnlikeGraphsApart) {
  const Words common = {"--network",      folder_ / "norm.onnx",
                        "--steps",        "2",
                        "--measurements", folder_ / "measured.json"};
  Train(2, common + Words{"--batch", "8", "--even"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  for (const char* momentum : {"0.9", "0"}) {
    const test::Finished alone =
        TrainAlone(common + Words{"--batch", "4", "--cpu-devices", "2",
                                  "--momentum", momentum});
    EXPECT_EQ(alone.status, 0) << alone.err;
  }
  Json measured = Json::parse(test::FileText(folder_ / "measured.json"));
  EXPECT_EQ(measured.size(), 3U);
  for (Json& entry : measured) entry["tasks"] = Json::array();
  std::ofstream(folder_ / "measured.json") << measured;
  const test::Finished damaged =
      TrainAlone(common + Words{"--batch", "4", "--cpu-devices", "2"});
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.err, HasSubstr((folder_ / "measured.json") +
                                     ": measurements of 0 tasks"));
}

TEST_F(TrainNormalisedTest, ResumesWithTheSameStatisticsOnly) {
  const Words common = {"--network",    folder_ / "norm.onnx", "--batch", "8",
                        "--checkpoint", folder_ / "net.ckpt"};
  ASSERT_EQ(TrainAlone(common + Words{"--steps", "2"}).status, 0);
  const test::Finished other = TrainAlone(
      common + Words{"--steps", "4", "--resume", "--batch-statistics", "rank"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err,
              HasSubstr("batch statistics and the split must be the same"));
  EXPECT_THAT(other.err, Not(HasSubstr("measuring")));
  const test::Finished done =
      TrainAlone(common + Words{"--steps", "2", "--resume"});
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.err, HasSubstr("--steps 2 asks for no more"));
}

TEST_F(TrainTest, NamesTheOutputsOfAModelThatHasSeveral) {
  std::ofstream(folder_ / "two.onnx")
      << test::OnnxModel(
             "g (float[N,3,8,8] x, float[4,3,3,3] w1, float[4,3,3,3] w2)"
             " => (float[N,4,6,6] left, float[N,4,6,6] right) {"
             "left = Conv(x, w1) right = Conv(x, w2) }")
             .SerializeAsString();
  const test::Finished run =
      TrainAlone({"--batch", "8", "--network", folder_ / "two.onnx"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("two.onnx: task 'loss': the model computes "
                                 "left and right; one output"));
}

TEST_F(TrainTest, KnowsTheImagesOfAModelWhateverItCallsThem) {
  std::ofstream(folder_ / "mnist.onnx")
      << test::OnnxModel(
             "g (float[N,1,28,28] x, float[10,1,3,3] w) => (float[N,10] y) {"
             "c = Conv(x, w)  p = GlobalAveragePool(c)  y = Flatten(p) }")
             .SerializeAsString();
  const test::Finished run =
      TrainAlone({"--network", folder_ / "mnist.onnx", "--batch", "1",
                  "--steps", "2", "--data", "mnist:" + OneImage()});
  EXPECT_EQ(run.status, 0) << run.err;
}
#endif

TEST_F(TrainTest, ResumesFromACheckpointAsIfNeverInterrupted) {
  const std::string file = folder_ / "kept/net.ckpt";
  // With the same measurements, the same plan comes out.
  const Words common = {
      "--batch",      "8",  "--images",       "60",
      "--checkpoint", file, "--measurements", folder_ / "measured.json"};
  const Json whole = Train(2, common + Words{"--steps", "14"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  // Stops in the middle of the second epoch.
  Train(2, common + Words{"--steps", "9"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json rest = Train(2, common + Words{"--steps", "14", "--resume"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(rest["first_step"], 9);
  const std::vector<double> losses = whole["losses"];
  EXPECT_EQ(rest["losses"].get<std::vector<double>>(),
            std::vector<double>(losses.begin() + 9, losses.end()));

  const test::Finished refused =
      TrainAlone(common + Words{"--steps", "30", "--resume", "--seed", "2"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(file), HasSubstr("the seed")));
  std::ofstream(file, std::ios::app) << "x";
  Train(2, common + Words{"--steps", "30", "--resume"});
  EXPECT_EQ(run_.exit_status, 2);
  EXPECT_THAT(run_.output, HasSubstr(file + ": offset 24"));
}

// As many ranks as there are then.
TEST_F(TrainTest, ResumesOnAnotherNumberOfRanks) {
  const Words common = {"--batch", "8", "--checkpoint", folder_ / "net.ckpt"};
  const Json whole = Train(1, common + Words{"--steps", "8"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  Train(1, common + Words{"--steps", "4"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json rest =
      Train(3, common + Words{"--steps", "8", "--resume", "--memory-budget",
                              "1KiB,1MiB,1MiB"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(rest["losses"][i], whole["losses"][i + 4], 1e-4);
  }
}

TEST_F(TrainTest, FinishesItsStepWhenInterrupted) {
  const std::string file = folder_ / "net.ckpt";
  const Words common = {"--batch", "8", "--checkpoint", file};
  // A single process needs no mpirun.
  test::Process process(
      Command(common + Words{"--steps", "1000000", "--checkpoint-every", "5"}),
      folder_ / "log", Environment());
  ASSERT_TRUE(test::WaitUntil([&] { return !test::FileText(file).empty(); }))
      << test::FileText(folder_ / "log");
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 128 + SIGINT);
  const std::string log = test::FileText(folder_ / "log");
  EXPECT_THAT(log, HasSubstr("--resume continues from " + file));
  const auto checkpoint = DecodeCheckpoint(test::FileText(file), file);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const std::int64_t done = checkpoint->steps;
  EXPECT_THAT(log, HasSubstr(fmt::format("interrupted after step {};", done)));
  const Json rest =
      Train(1, common + Words{"--resume", "--steps", std::to_string(done + 2)});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(rest["first_step"], done);
}

TEST_F(TrainTest, TrainsOnTheFilesOfMnistAndCifar10) {
  const std::string images = folder_ / "train-images-idx3-ubyte";
  const std::string labels = folder_ / "train-labels-idx1-ubyte";
  const auto word = [](int n) {
    return std::string{0, 0, static_cast<char>(n / 256),
                       static_cast<char>(n % 256)};
  };
  std::string pixels;
  std::string classes;
  std::string cifar;
  for (int i = 0; i < 20; ++i) {
    const auto label = static_cast<char>(i % 10);
    classes += label;
    pixels += std::string(28 * 28, static_cast<char>(20 * label));
    cifar += label + std::string(3072, static_cast<char>(20 * label));
  }
  const std::string head = std::string{0, 0, 8, 3} + word(20);
  std::ofstream(images) << head + word(28) + word(28) + pixels;
  std::ofstream(labels) << std::string{0, 0, 8, 1} + word(20) + classes;
  std::ofstream(folder_ / "data_batch_1.bin") << cifar;
  for (const std::string form : {"mnist", "cifar10"}) {
    const Json report = Train(
        2, {"--network", folder_ / (form + ".csv"), "--data",
            form + ":" + folder_.path(), "--batch", "10", "--steps", "5"});
    ASSERT_EQ(run_.exit_status, 0) << run_.output;
    EXPECT_EQ(report["losses"].size(), 5U);
    EXPECT_LT(report["losses"].back(), report["losses"].front());
  }
  std::ofstream(images, std::ios::app) << "x";
  Train(2, {"--network", folder_ / "mnist.csv", "--data",
            "mnist:" + folder_.path(), "--batch", "10"});
  EXPECT_EQ(run_.exit_status, 2);
  EXPECT_THAT(run_.output,
              HasSubstr("ucudnn-train: rank 0: " + images + ": offset 16"));
}

TEST_F(TrainTest, TrainsWithinTheBudget) {
  const auto run =
      TrainAlone({"--batch", "4", "--images", "4", "--memory-budget", "1MiB",
                  "--steps", "4", "--rate", "0.05", "-o", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Json json = Json::parse(run.out);
  const Json& rank = json["ranks"][0];
  EXPECT_LE(rank["peak_bytes"], 1 << 20);
  EXPECT_EQ(rank["policy"], "best");
  EXPECT_GT(rank["step_us"], 0);
  const std::vector<double> losses = json["losses"];
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_LT(losses.back(), losses.front());
}

TEST_F(TrainTest, SaysThatMeasurementsHaveNoErrors) {
  const std::string file = folder_ / "measured.json";
  const Words words = kFewSteps + Words{"--measurements", file};
  EXPECT_THAT(Train(1, words)["reason"].get<std::string>(),
              Not(HasSubstr("accuracy")));
  Json known = Json::parse(test::FileText(file));
  for (Json& of_graph : known) {
    for (Json& task : of_graph["tasks"]) {
      for (Json& point : task) point.erase("error_ppt");
    }
  }
  std::ofstream(file) << known;
  EXPECT_THAT(Train(1, words)["reason"].get<std::string>(),
              HasSubstr("; accuracy not measured: "));
}

TEST_F(TrainTest, NamesTheFileOfMeasurementsThatItCannotUse) {
  const std::string file = folder_ / "measured.json";
  const Words words = kFewSteps + Words{"--measurements", file};
  ASSERT_EQ(TrainAlone(words).status, 0);
  const Json measured = Json::parse(test::FileText(file));
  Json unknown = measured;
  for (Json& task : unknown.front()["tasks"]) {
    for (Json& point : task) {
      if (point["algorithm"] != "") point["algorithm"] = "bogus";
    }
  }
  std::ofstream(file) << unknown;
  test::Finished run = TrainAlone(words);
  EXPECT_NE(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr(file + ": "));
  EXPECT_THAT(run.err, HasSubstr(" has no algorithm 'bogus'"));
  Json without = measured;
  without.front()["tasks"].back() = Json::array();
  std::ofstream(file) << without;
  run = TrainAlone(words);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr(file + ": task '"));
  EXPECT_THAT(run.err, HasSubstr("has points at 0 batches"));
}

TEST_F(TrainTest, TakesABudgetOfZeroAsAllThatTheDeviceHas) {
  const Json report = Train(1, kFewSteps + Words{"--memory-budget", "0"});
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_GT(report["ranks"][0]["budget_bytes"], 0);
}

TEST_F(TrainTest, ComparesOperatorsWithThePlan) {
  const auto run =
      TrainAlone({"--batch", "4", "--memory-budget", "1MiB", "--recompute",
                  "--offload-weights", "--task-times", "--steps", "2"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("convolution backward_filter"));
}

// The times that were measured are in the file, so the plan can be checked.
TEST_F(TrainTest, WritesTheGraphThatItPlanned) {
  const std::string graph = folder_ / "graph.json";
  const auto run =
      TrainAlone({"--batch", "4", "--memory-budget", "300KiB", "--steps", "2",
                  "--graph-out", graph, "-o", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Json trained = Json::parse(run.out)["ranks"][0];
  const auto again =
      test::Run({test::ProgramPath("ucudnn"), "solve", "memory", "--graph",
                 graph, "--budget", "300KiB", "-o", "json"});
  ASSERT_EQ(again.status, 0) << again.err;
  const Json plan = Json::parse(again.out);
  EXPECT_EQ(plan["time_us"], trained["predicted_us"]);
  EXPECT_EQ(plan["peak_bytes"], trained["peak_bytes"]);
}

TEST_F(TrainTest, StopsWhileItMeasuresWhenInterrupted) {
  test::Process process(Command({"--batch", "64", "--steps", "1000000000"}),
                        folder_ / "log", Environment());
  // A signal while it measures stops it, and so does one while it trains.
  ASSERT_TRUE(test::WaitUntil([&] {
    return test::FileText(folder_ / "log").find("measuring") !=
           std::string::npos;
  }));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 128 + SIGTERM) << test::FileText(folder_ / "log");
}

TEST_F(TrainTest, ExitsWithTheStatusOfTheContract) {
  Train(2, {"--batch", "1", "--even"});
  EXPECT_EQ(run_.exit_status, 2);
  EXPECT_THAT(run_.output, HasSubstr("1 images on 2 ranks"));
  Train(2, {"--batch", "8", "--shares", "4,3"});
  EXPECT_EQ(run_.exit_status, 2);
  EXPECT_THAT(run_.output, HasSubstr("2 shares of 7 images"));
  const std::vector<std::pair<Words, std::string>> refused = {
      {{"--shares", "4"}, "1 shares of 4 images"},
      {{"--seed", "-1"}, "a whole number from 0 to"},
      {{"--seed", "18446744073709551616"}, "a whole number from 0 to"},
      {{"--checkpoint", ""}, "--checkpoint: '' is given"},
      {{"--checkpoint", folder_ / "net.csv"}, "is the file of --network"},
      {{"--images", "8", "--data", "mnist:" + OneImage()},
       "--images is of synthetic images"}};
  for (const auto& [words, why] : refused) {
    const test::Finished run = TrainAlone(Words{"--batch", "8"} + words);
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(why));
  }
  Train(2, {"--batch", "8", "--memory-budget", "1MiB,1MiB,1MiB"});
  EXPECT_EQ(run_.exit_status, 2);
  EXPECT_THAT(run_.output, HasSubstr("3 sizes for 2 ranks"));
  Train(2, {"--batch", "8", "--memory-budget", "2KiB,1KiB"});
  EXPECT_EQ(run_.exit_status, 3);
  EXPECT_THAT(run_.output, HasSubstr("at least"));
  const auto expect = [&](int status, const std::string& text,
                          const Words& arguments) {
    const test::Finished run = TrainAlone(arguments);
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr(text));
  };
  expect(2, "--batch", {});
  expect(2, "net.csv: it is text",
         {"--batch", "8", "--input-shape", "3,16,16"});
  expect(2, "3,224,224", {"--batch", "8", "--input-shape", "3x16"});
  expect(2, "undivided", {"--batch", "8", "--memory-policy", "nearest"});
  expect(2, "--memory-budget", {"--batch", "8", "--memory-budget", "much"});
  expect(3, "would do",
         {"--batch", "8", "--memory-budget", "10KiB", "--memory-policy",
          "vdnn-all"});
  expect(2, "none.csv", {"--batch", "8", "--network", folder_ / "none.csv"});
  expect(2, "none", {"--batch", "8", "--data", "mnist:" + (folder_ / "none")});
  std::ofstream(folder_ / "no.onnx") << std::string(9, '\1');
  expect(2, "no.onnx", {"--batch", "8", "--network", folder_ / "no.onnx"});
  for (const char* option : {"--rate", "--momentum", "--time-limit"}) {
    expect(2, "'nan' is given; a number from", {"--batch", "8", option, "nan"});
  }
  std::ofstream(folder_ / "file") << "x";
  for (const char* option : {"--checkpoint", "--measurements", "--graph-out"}) {
    expect(1, std::string(option) + ": " + (folder_ / "file"),
           {"--batch", "8", option, folder_ / "file/under"});
  }
  expect(2, "only 7 images", {"--batch", "8", "--images", "7"});
  expect(2, "takes images of 3x16x16",
         {"--batch", "8", "--data", "mnist:" + OneImage()});
}

}  // namespace
}  // namespace ucudnn::train
