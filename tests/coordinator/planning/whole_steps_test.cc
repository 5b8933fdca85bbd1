#include "coordinator/planning/whole_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/onnx/network_file.h"
#include "base/other_tasks.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using std::chrono_literals::operator""ns;

NetworkRecord AlexNetRecord() {
  NetworkRecord network;
  network.name = "alexnet";
  network.format = NetworkFormat::kOnnx;
  network.source =
      ReadNetworkContents(test::DataPath("onnx/alexnet.onnx"), {}).value();
  network.hash = std::string(64, 'a');
  return network;
}

StepTasks TasksOfAlexNet(const JobRequest& request) {
  const NetworkRecord record = AlexNetRecord();
  return StepTasksOf(
      record,
      ParseNetwork(record.source, "alexnet", BatchSize(1), "test").value(),
      request);
}

JobRequest RequestOfBatch(std::int64_t batch) {
  JobRequest request;
  request.network = "alexnet";
  request.batch = BatchSize(batch);
  return request;
}

MeasuredPoint TaskPoint(std::int64_t batch, const std::string& task,
                        std::int64_t ns) {
  MeasuredPoint point;
  point.batch = BatchSize(batch);
  point.algorithm.name = task;
  point.time = Nanoseconds(ns);
  return point;
}

TEST(WholeStepsTest, NamesAllTasksOfAModelThatAreNoConvolutions) {
  const StepTasks tasks = TasksOfAlexNet(RequestOfBatch(4));
  EXPECT_EQ(tasks.unknown, "");
  EXPECT_EQ(tasks.problem, "tasks-" + std::string(64, 'a') + "-FP32-NCHW");
  EXPECT_THAT(tasks.names, Contains("loss"));
  EXPECT_THAT(tasks.names, Contains(HasSubstr("Gemm.forward")));
  EXPECT_THAT(tasks.names, Not(Contains(HasSubstr("Conv.forward"))));
  EXPECT_THAT(tasks.names, Contains(HasSubstr("Conv.update")));
}

TEST(WholeStepsTest, AreUnknownWhereDevicesDoNotTrain) {
  JobRequest request = RequestOfBatch(4);
  request.layout = Layout::kNhwc;
  const StepTasks tasks = TasksOfAlexNet(request);
  EXPECT_FALSE(tasks.measured());
  EXPECT_THAT(tasks.unknown, HasSubstr("not in FP32, NHWC"));
  request = RequestOfBatch(4);
  request.precision = Precision::kTrueHalf;
  EXPECT_FALSE(TasksOfAlexNet(request).measured());
  // Its convolutions alone: nothing is said.
  NetworkRecord csv;
  csv.format = NetworkFormat::kCsv;
  const StepTasks none = StepTasksOf(csv, Network(), RequestOfBatch(4));
  EXPECT_FALSE(none.measured());
  EXPECT_EQ(none.unknown, "");
}

TEST(WholeStepsTest, AreOnTheLineBetweenMeasuredBatches) {
  const StepTasks tasks = {.problem = "p", .names = {"a", "b"}, .unknown = ""};
  const auto times = TimesOf(
      tasks,
      {TaskPoint(2, "a", 10), TaskPoint(2, "b", 20), TaskPoint(5, "a", 13),
       TaskPoint(5, "b", 50), TaskPoint(5, "conv.forward", 3)},
      BatchSize(6));
  ASSERT_EQ(times.size(), 7U);
  EXPECT_THAT(times, ElementsAre(Optional(0ns), std::nullopt, Optional(30ns),
                                 Optional(42ns), Optional(54ns), Optional(66ns),
                                 std::nullopt));
}

TEST(WholeStepsTest, ExchangeStatisticsBetweenRanks) {
  const std::vector<MeasuredPoint> points = {TaskPoint(1, "a", 1),
                                             TaskPoint(1, "bn", 10),
                                             TaskPoint(1, "bn.exchanged", 15),
                                             TaskPoint(2, "bn.exchanged", 30),
                                             TaskPoint(2, "bn", 20),
                                             TaskPoint(2, "a", 2)};
  StepTasks tasks = {.problem = "p", .names = {"a", "bn"}, .unknown = ""};
  EXPECT_THAT(TimesOf(tasks, points, BatchSize(2)),
              ElementsAre(Optional(0ns), Optional(11ns), Optional(22ns)));
  tasks.exchanged = true;
  EXPECT_THAT(TimesOf(tasks, points, BatchSize(2)),
              ElementsAre(Optional(0ns), Optional(16ns), Optional(32ns)));
  // Of agents that did not measure it.
  EXPECT_THAT(TimesOf(tasks, {points[0], points[1]}, BatchSize(1)),
              ElementsAre(Optional(0ns), Optional(11ns)));

  JobRequest request = RequestOfBatch(4);
  request.device_kinds = {"K"};
  EXPECT_FALSE(TasksOfAlexNet(request).exchanged);
  request.device_kinds = {"K", "K"};
  EXPECT_TRUE(TasksOfAlexNet(request).exchanged);
  request.exclude_ranks = {1};
  EXPECT_FALSE(TasksOfAlexNet(request).exchanged);
}

TEST(WholeStepsTest, SkipBatchesAtWhichATaskLacks) {
  const StepTasks tasks = {.problem = "p", .names = {"a", "b"}, .unknown = ""};
  const auto times = TimesOf(
      tasks,
      {TaskPoint(1, "a", 1), TaskPoint(1, "b", 1), TaskPoint(2, "a", 100),
       TaskPoint(3, "a", 3), TaskPoint(3, "b", 3)},
      BatchSize(3));
  EXPECT_THAT(times, ElementsAre(Optional(0ns), Optional(2ns), Optional(4ns),
                                 Optional(6ns)));
}

TEST(WholeStepsTest, DoNotOverflow) {
  const StepTasks tasks = {.problem = "p", .names = {"a", "b"}, .unknown = ""};
  const std::int64_t most = std::int64_t{1} << 62;
  const auto times = TimesOf(
      tasks, {TaskPoint(1, "a", most), TaskPoint(1, "b", most)}, BatchSize(1));
  EXPECT_EQ(times[1], std::nullopt);
}

}  // namespace
}  // namespace ucudnn
