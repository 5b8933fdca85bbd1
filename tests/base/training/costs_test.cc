#include "base/training/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/training/build.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TrainingGraph Chain(std::int64_t batch) {
  TrainingGraph graph = *BuildTrainingGraph(test::SmallChain(batch), {});
  EXPECT_TRUE(SetDevice(*DeviceModelPreset("K40"), &graph));
  return graph;
}

const Task& TaskOf(const TrainingGraph& graph, const std::string& name) {
  for (const Task& task : graph.tasks) {
    if (task.name == name) return task;
  }
  ADD_FAILURE() << "no task " << name;
  return graph.tasks.front();
}

constexpr char kTimesHeader[] =
    "device,network,layer,op,precision,layout,batch,algorithm,math,"
    "workspace_bytes,time_us\n";

TEST(CostsTest, WithoutMeasurementsFollowTheDevicesRates) {
  const TrainingGraph graph = Chain(8);
  // 2 * 16 * 3 * 9 * 1024 operations an image at 2.6 TFlop/s.
  EXPECT_THAT(CostsAt(graph, TaskOf(graph, "conv1.forward"), BatchSize(8)),
              ElementsAre(TaskCost{{"IMPLICIT_GEMM", "", Precision::kFp32},
                                   Bytes(0),
                                   Nanoseconds(2722)}));
  // 16 * 1024 floats of 8 images, read and written, at 170 GB/s after 10 us.
  EXPECT_THAT(CostsAt(graph, TaskOf(graph, "conv1.relu.forward"), BatchSize(8)),
              ElementsAre(TaskCost{{}, Bytes(0), Nanoseconds(10000 + 6168)}));
}

TEST(CostsTest, MeasuredConvolutionsKeepTheParetoFrontAtTheBatch) {
  TrainingGraph graph = Chain(8);
  const auto profile =
      ParseProfileCsv(std::string(kTimesHeader) +
                          "d,chain,conv1,forward,FP32,NCHW,8,GEMM,FMA,0,50\n"
                          "d,chain,conv1,forward,FP32,NCHW,8,FFT,FMA,900,20\n"
                          "d,chain,conv1,forward,FP32,NCHW,8,SLOW,FMA,950,30\n"
                          "d,chain,conv1,forward,FP32,NCHW,4,FFT,FMA,500,11\n"
                          "d,chain,pool2,forward,FP32,NCHW,8,NONE,,0,77\n",
                      "p.csv");
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_TRUE(SetConvolutionCosts(*profile, &graph));
  const Task& conv = TaskOf(graph, "conv1.forward");
  std::vector<std::string> names;
  for (const TaskCost& cost : CostsAt(graph, conv, BatchSize(8))) {
    names.push_back(cost.algorithm.name);
  }
  EXPECT_THAT(names, ElementsAre("GEMM", "FFT"));
  EXPECT_THAT(CostsAt(graph, conv, BatchSize(5)), IsEmpty());
  EXPECT_EQ(PointsOf(graph, conv, BatchSize(8)).size(), 3u);
}

TEST(CostsTest, FilterGradientsOfSubBatchesAdd) {
  TrainingGraph graph = Chain(8);
  std::string csv(kTimesHeader);
  csv.insert(csv.size() - 1, ",adding_us");
  const auto profile = ParseProfileCsv(
      csv +
          "d,chain,conv1,backward_filter,FP32,NCHW,8,GEMM,FMA,0,50,60\n"
          "d,chain,conv1,backward_filter,FP32,NCHW,4,GEMM,FMA,0,30,40\n"
          "d,chain,conv1,backward_filter,FP32,NCHW,2,GEMM,FMA,0,20,\n",
      "p.csv");
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_TRUE(SetConvolutionCosts(*profile, &graph));
  const auto time_of = [&](std::int64_t batch) {
    const Task& task = TaskOf(graph, "conv1.backward_filter");
    return CostsAt(graph, task, BatchSize(batch)).at(0).time;
  };
  EXPECT_EQ(time_of(8), Nanoseconds(50'000));
  EXPECT_EQ(time_of(4), Nanoseconds(40'000));
  EXPECT_EQ(time_of(2), Nanoseconds(20'000));  // not recorded
}

// The convolutions of a network in parts of the image have other names and
// problems than the profile's layers.
TEST(CostsTest, ConvolutionsInPartsAreMatchedByTheirProblems) {
  test::NetworkBuilder n("net", 8);
  const auto half = [&](const std::string& part) {
    return n.Conv("a." + part, n.Input("input." + part, {8, 3, 4, 8}), 4, 3);
  };
  const auto first = half("h0w0");
  n.Conv("b", n.Concat("join", {first, half("h1w0")}), 4, 3);
  TrainingGraph graph = *BuildTrainingGraph(n.Finish(), {});
  ASSERT_TRUE(SetDevice(*DeviceModelPreset("K40"), &graph));
  std::string header(kTimesHeader);
  header.insert(header.size() - 1, ",problem");
  const std::string a = "c3-h4w8-k4-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW\n";
  const std::string b = "c8-h4w8-k4-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW\n";
  std::string csv =
      header +
      "d,n,a,forward,FP32,NCHW,8,G,FMA,0,99,forward-c3-h8w8-k4-r3s3-pad1x1-"
      "str1x1-dil1x1-g1-FP32-NCHW\n"
      "d,n,half,forward,FP32,NCHW,8,G,FMA,0,10,forward-" +
      a + "d,n,half,backward_filter,FP32,NCHW,8,G,FMA,0,11,backward_filter-" +
      a + "d,n,b,forward,FP32,NCHW,8,G,FMA,0,20,forward-" + b +
      "d,n,b,backward_filter,FP32,NCHW,8,G,FMA,0,21,backward_filter-" + b;
  const auto set = [&] {
    return SetConvolutionCosts(ParseProfileCsv(csv, "p.csv").value(), &graph);
  };
  const Status missing = set();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kInvalidArgument);
  EXPECT_THAT(missing.error().message,
              HasSubstr("1 of the 5 problems of net are not in the profile, "
                        "such as that of b.backward_data (backward_data-" +
                        b.substr(0, b.size() - 1) + ")"));
  csv += "d,n,other,backward_data,FP32,NCHW,8,G,FMA,0,22,backward_data-" + b;
  // Both halves of the layer, and one of two layers of one problem: that of the
  // node's name.
  csv += "d,n,other,forward,FP32,NCHW,8,G,FMA,0,77,forward-" + b;
  ASSERT_TRUE(set());
  const auto time_of = [&](const std::string& task) {
    return CostsAt(graph, TaskOf(graph, task), BatchSize(8)).at(0).time.count();
  };
  EXPECT_EQ(time_of("a.h0w0.forward"), 10'000);
  EXPECT_EQ(time_of("a.h1w0.forward"), 10'000);
  EXPECT_EQ(time_of("a.h1w0.backward_filter"), 11'000);
  EXPECT_EQ(time_of("b.forward"), 20'000);
  EXPECT_EQ(time_of("b.backward_data"), 22'000);
}

TEST(CostsTest, MeasuredTasksReplaceTheRates) {
  TrainingGraph graph = Chain(8);
  const std::string csv = std::string(kTimesHeader) +
                          "d,chain,pool2,forward,FP32,NCHW,8,NONE,,0,77\n"
                          "d,chain,pool2,forward,FP32,NCHW,8,NONE,,0,79\n"
                          "d,chain,pool2,forward,FP32,NCHW,8,NONE,,0,75\n"
                          "d,chain,fc4,update,FP32,NCHW,1,NONE,,0,5\n";
  const auto times = ParseTaskTimesCsv(csv, {}, "p.csv");
  ASSERT_TRUE(times) << times.error().message;
  SetTaskCosts(*times, &graph);
  EXPECT_THAT(CostsAt(graph, TaskOf(graph, "pool2.forward"), BatchSize(8)),
              ElementsAre(TaskCost{{}, Bytes(0), Nanoseconds(77000)}));
  EXPECT_THAT(CostsAt(graph, TaskOf(graph, "pool2.forward"), BatchSize(4)),
              IsEmpty());
  EXPECT_THAT(CostsAt(graph, TaskOf(graph, "fc4.update"), BatchSize(4)),
              ElementsAre(TaskCost{{}, Bytes(0), Nanoseconds(5000)}));
}

TEST(TaskTimesTest, ErrorsNamePlaceAndValue) {
  const auto error = [](const std::string& rows) {
    const auto times =
        ParseTaskTimesCsv(std::string(kTimesHeader) + rows, {}, "p.csv");
    return times ? "none" : times.error().message;
  };
  EXPECT_THAT(error("d,n,pool,sideways,FP32,NCHW,8,NONE,,0,77\n"),
              ::testing::AllOf(HasSubstr("p.csv:2"), HasSubstr("sideways")));
  EXPECT_THAT(error("d,n,pool,forward,FP32,NCHW,0,NONE,,0,77\n"),
              HasSubstr("p.csv:2"));
  EXPECT_THAT(error("d,n,pool,forward,FP32,NCHW,8,NONE,,0,77\n"
                    "e,n,pool,forward,FP32,NCHW,8,NONE,,0,77\n"),
              ::testing::AllOf(HasSubstr("p.csv:3"), HasSubstr("'d' and 'e'")));
}

TEST(DeviceModelTest, PresetsAreValidAndOthersAreNamed) {
  for (const std::string& name : DeviceModelPresets()) {
    const auto model = DeviceModelPreset(name);
    ASSERT_TRUE(model) << name;
    EXPECT_TRUE(Validate(*model)) << name;
  }
  const auto unknown = DeviceModelPreset("K41");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("K40"));
}

TEST(DeviceModelTest, WorkspacesFollowTheirFormulas) {
  ConvProblem conv2;  // of AlexNet
  conv2.geometry.channels = 96;
  conv2.geometry.filters = 256;
  conv2.geometry.input = {1, 27, 27};
  conv2.geometry.filter = {1, 5, 5};
  conv2.geometry.padding = {0, 2, 2};
  EXPECT_EQ(ModelledWorkspace("FFT", conv2, BatchSize(128)), 499122176_B);
  EXPECT_EQ(ModelledWorkspace("WINOGRAD_NONFUSED", conv2, BatchSize(128)),
            std::nullopt);
  ConvProblem conv2_2;  // of VGG-16
  conv2_2.geometry.channels = conv2_2.geometry.filters = 128;
  conv2_2.geometry.input = {1, 112, 112};
  conv2_2.geometry.filter = {1, 3, 3};
  conv2_2.geometry.padding = {0, 1, 1};
  EXPECT_EQ(ModelledWorkspace("WINOGRAD_NONFUSED", conv2_2, BatchSize(16)),
            464781312_B);
  EXPECT_EQ(ModelledWorkspace("FFT", conv2_2, BatchSize(16)), std::nullopt);
}

TEST(CostsTest, AreOnTheLineOfATaskThatHasOne) {
  TrainingGraph graph;
  Task task;
  task.work.line = {{BatchSize(2), Nanoseconds(100)},
                    {BatchSize(4), Nanoseconds(201)},
                    {BatchSize(8), Nanoseconds(80)}};
  const auto at = [&](std::int64_t batch) {
    return CostsAt(graph, task, BatchSize(batch)).at(0).time.count();
  };
  EXPECT_EQ(at(1), 100);
  EXPECT_EQ(at(2), 100);
  EXPECT_EQ(at(3), 150);
  EXPECT_EQ(at(4), 201);
  EXPECT_EQ(at(7), 111);  // rounded towards the former
  EXPECT_EQ(at(8), 80);
  EXPECT_EQ(at(12), 120);
  task.work.fixed = Nanoseconds(5);
  EXPECT_EQ(at(3), 5);
}

}  // namespace
}  // namespace ucudnn
