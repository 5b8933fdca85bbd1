#include "client/train/estimates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn::train {
namespace {

using ::testing::ElementsAre;

MeasuredPoint At(std::int64_t batch, const std::string& algorithm,
                 std::int64_t time, std::int64_t workspace = 0) {
  MeasuredPoint point;
  point.batch = BatchSize(batch);
  point.algorithm.name = algorithm;
  point.time = Nanoseconds(time);
  point.workspace = Bytes(workspace);
  return point;
}

TrainingGraph With(std::vector<MeasuredPoint> points) {
  TrainingGraph graph;
  graph.tasks.resize(1);
  graph.tasks[0].work.measured = std::move(points);
  return graph;
}

TEST(EstimatesTest, AreOnTheLineThroughTheBatchesAroundThem) {
  TrainingGraph graph = With({At(4, "", 100), At(8, "", 180), At(16, "", 400)});
  EstimateTasks(std::vector{BatchSize(6), BatchSize(20)}, &graph);
  EXPECT_THAT(graph.tasks[0].work.measured,
              ElementsAre(At(4, "", 100), At(8, "", 180), At(16, "", 400),
                          At(6, "", 140), At(20, "", 510)));
}

TEST(EstimatesTest, AreProportionalToTheOnlyBatchAndNeverBelowNothing) {
  TrainingGraph graph = With({At(4, "", 100)});
  EstimateTasks(std::vector{BatchSize(8)}, &graph);
  EXPECT_EQ(graph.tasks[0].work.measured.back(), At(8, "", 200));
  graph = With({At(8, "", 100), At(16, "", 300)});
  EstimateTasks(std::vector{BatchSize(2)}, &graph);
  EXPECT_EQ(graph.tasks[0].work.measured.back(), At(2, "", 0));
}

TEST(EstimatesTest, AreOfAlgorithmsThatBothBatchesHave) {
  TrainingGraph graph =
      With({At(4, "FFT", 100, 10), At(4, "GEMM", 300), At(8, "FFT", 140, 30)});
  EstimateTasks(std::vector{BatchSize(6)}, &graph);
  ASSERT_EQ(graph.tasks[0].work.measured.size(), 4u);
  EXPECT_EQ(graph.tasks[0].work.measured.back(), At(6, "FFT", 120, 20));
}

// Libraries may choose another kernel, with another name, for each batch.
TEST(EstimatesTest, AreOfTheFastestWhereNoAlgorithmIsCommon) {
  TrainingGraph graph =
      With({At(4, "a", 100), At(8, "b", 140), At(8, "c", 120)});
  EstimateTasks(std::vector{BatchSize(6)}, &graph);
  ASSERT_EQ(graph.tasks[0].work.measured.size(), 4u);
  EXPECT_EQ(graph.tasks[0].work.measured.back(), At(6, "a", 110));
}

TEST(EstimatesTest, LeaveMeasuredBatchesAndUpdatesAlone) {
  TrainingGraph graph = With({At(4, "", 100)});
  const TrainingGraph before = graph;
  EstimateTasks(std::vector{BatchSize(4)}, &graph);
  EXPECT_EQ(graph, before);
  graph.tasks[0].kind = TaskKind::kUpdate;
  EstimateTasks(std::vector{BatchSize(8)}, &graph);
  EXPECT_EQ(graph.tasks[0].work.measured, before.tasks[0].work.measured);
  EXPECT_TRUE(MeasuredSizes(graph).empty());
  EXPECT_THAT(MeasuredSizes(before), ElementsAre(BatchSize(4)));
}

}  // namespace
}  // namespace ucudnn::train
