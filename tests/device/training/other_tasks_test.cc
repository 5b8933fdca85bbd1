#include "device/training/other_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/onnx/network_file.h"
#include "base/training/step_tasks.h"
#include "device/onednn/onednn_device.h"
#include "device/operators/open.h"
#include "tests/base/onnx/models.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class OtherTasksTest : public ::testing::Test {
 protected:
  Result<std::vector<MeasuredPoint>> MeasureOthers(
      const std::string& only = {}) {
    return MeasureOtherTasks(*cpu_, *operators_,
                             {.tasks = {.network = std::string(64, '1')},
                              .model = model_,
                              .batch = BatchSize(2),
                              .only = only},
                             {});
  }

  // Convolutions with biases, a pool and a fully connected layer.
  std::string model_ =
      test::OnnxModel(
          "g (float[N,3,16,16] x, float[8,3,3,3] w1, float[8] b1,"
          "float[8,8,3,3] w2, float[8] b2, float[10,512] wf, float[10] bf)"
          " => (float[N,10] y) {"
          "c1 = Conv<pads=[1,1,1,1]>(x, w1, b1)  r1 = Relu(c1)"
          "c2 = Conv<pads=[1,1,1,1]>(r1, w2, b2)  r2 = Relu(c2)"
          "p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r2)"
          "f = Flatten(p)  y = Gemm<transB=1>(f, wf, bf) }")
          .SerializeAsString();
  std::unique_ptr<Device> cpu_ = *OpenOneDnnDevice({.threads = 1});
  std::unique_ptr<Operators> operators_ = *OpenOperators(*cpu_);
};

TEST_F(OtherTasksTest, MeasuresEveryTaskThatIsNoConvolution) {
  const auto points = MeasureOthers();
  ASSERT_TRUE(points) << points.error().message;
  std::map<std::string, int> measured;
  for (const MeasuredPoint& point : *points) {
    EXPECT_EQ(point.batch, BatchSize(2));
    EXPECT_GT(point.time, Nanoseconds(0));
    EXPECT_EQ(point.workspace, 0_B);
    ++measured[point.algorithm.name];
  }
  const Graph graph = ParseGraph(model_, "n", BatchSize(2), "n").value();
  const TrainingGraph training = BuildTrainingGraph(graph, {}).value();
  const std::vector<bool> convolutions =
      AreConvolutions(training, NetworkOf(graph));
  std::size_t others = 0;
  std::size_t beside = 0;
  for (std::size_t task = 0; task < convolutions.size(); ++task) {
    const Task& of_graph = training.tasks[task];
    if (!convolutions[task]) {
      ++others;
      EXPECT_EQ(measured[of_graph.name], 1) << of_graph.name;
    } else if (of_graph.kind != TaskKind::kBackwardData) {
      // Their biases.
      ++beside;
      EXPECT_EQ(measured[of_graph.name], 1) << of_graph.name;
    } else {
      EXPECT_EQ(measured.count(of_graph.name), 0U) << of_graph.name;
    }
  }
  EXPECT_GT(others, 10U);
  EXPECT_THAT(measured, SizeIs(others + beside));
}

TEST_F(OtherTasksTest, MeasuresOneTaskAlone) {
  const auto all = MeasureOthers();
  ASSERT_TRUE(all) << all.error().message;
  const std::string name = all->front().algorithm.name;
  const auto one = MeasureOthers(name);
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_THAT(*one, SizeIs(1));
  EXPECT_EQ(one->front().algorithm.name, name);
  EXPECT_THAT(MeasureOthers("nothing").error().message,
              HasSubstr("no task 'nothing'"));
}

TEST_F(OtherTasksTest, MeasuresNormalisationsOfOneRankAndOfSeveral) {
  model_ = test::OnnxModel(
               "g (float[N,3,8,8] x, float[4,3,3,3] w, float[4] s, float[4] t,"
               "float[4] m, float[4] v, float[10,256] wf, float[10] bf)"
               " => (float[N,10] y) {"
               "c = Conv<pads=[1,1,1,1]>(x, w)"
               "n = BatchNormalization(c, s, t, m, v)"
               "f = Flatten(n)  y = Gemm<transB=1>(f, wf, bf) }")
               .SerializeAsString();
  const auto points = MeasureOthers();
  ASSERT_TRUE(points) << points.error().message;
  std::set<std::string> exchanged;
  for (const MeasuredPoint& point : *points) {
    EXPECT_GT(point.time, Nanoseconds(0));
    const std::string& name = point.algorithm.name;
    if (name.ends_with(kExchanged)) exchanged.insert(name);
  }
  EXPECT_THAT(exchanged, ElementsAre(HasSubstr(".backward.exchanged"),
                                     HasSubstr(".forward.exchanged")));
  // As devices are compared.
  const auto one = MeasureOthers(*exchanged.begin());
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_THAT(*one, SizeIs(1));
  EXPECT_EQ(one->front().algorithm.name, *exchanged.begin());
}

TEST_F(OtherTasksTest, FailsForGoodWithoutTheModel) {
  model_.clear();
  EXPECT_EQ(MeasureOthers().error().code, Code::kInvalidArgument);
  model_ = "not a model";
  EXPECT_EQ(MeasureOthers().error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace ucudnn
