#include "client/train/measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/training/costs.h"
#include "base/training/device_model.h"

namespace ucudnn::train {
namespace {

using ::testing::HasSubstr;

TrainingGraph Measured() {
  TrainingGraph graph;
  graph.batch = BatchSize(8);
  graph.tasks.resize(2);
  EXPECT_TRUE(SetDevice(*DeviceModelPreset("H200"), &graph));
  MeasuredPoint point;
  point.batch = BatchSize(4);
  point.algorithm = {"FFT", "TENSOR_OP", Precision::kTf32};
  point.workspace = 3_MiB;
  point.time = Nanoseconds(123'457);
  point.repeats = 3;
  graph.tasks[1].work.measured = {point};
  point.algorithm.name.clear();
  graph.tasks[0].work.measured = {point};
  return graph;
}

TEST(MeasurementsTest, ReadsBackWhatItWrites) {
  const TrainingGraph written = Measured();
  TrainingGraph read = written;
  read.device = {};
  read.tasks[1].work.measured.clear();
  ASSERT_TRUE(SetMeasurements(MeasurementsOf(written), &read));
  EXPECT_EQ(read.tasks, written.tasks);
  EXPECT_EQ(read.device.name, written.device.name);
}

TEST(MeasurementsTest, RefusesThoseOfAnotherGraph) {
  TrainingGraph other = Measured();
  other.tasks.emplace_back();
  const Status refused = SetMeasurements(MeasurementsOf(Measured()), &other);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("of 2 tasks; 3 are expected"));
  EXPECT_FALSE(SetMeasurements({{"tasks", 1}}, &other));
}

TEST(MeasurementsTest, NamesTheTaskWithoutAPoint) {
  TrainingGraph graph = Measured();
  graph.tasks[0].name = "relu.forward";
  nlohmann::ordered_json json = MeasurementsOf(graph);
  json["tasks"][0] = nlohmann::ordered_json::array();
  Status refused = SetMeasurements(json, &graph);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "task 'relu.forward' has points at 0 batches; those of other "
            "tasks, at 1, are accepted");
  json = MeasurementsOf(Measured());
  json["tasks"][0][0]["batch"] = 2;
  EXPECT_FALSE(SetMeasurements(json, &graph));
  // An update takes the same time at any batch.
  graph.tasks[0].kind = TaskKind::kUpdate;
  EXPECT_TRUE(SetMeasurements(json, &graph));
}

TEST(MeasurementsTest, NamesTheTaskWhosePointIsNone) {
  for (const auto& [field, value] :
       {std::pair("batch", nlohmann::ordered_json(0)),
        {"batch", nlohmann::ordered_json(-1)},
        {"workspace_bytes", nlohmann::ordered_json(-1)},
        {"time_ns", nlohmann::ordered_json(std::int64_t{1} << 62)}}) {
    nlohmann::ordered_json json = MeasurementsOf(Measured());
    json["tasks"][1][0][field] = value;
    TrainingGraph graph = Measured();
    graph.tasks[1].name = "conv.forward";
    const Status refused = SetMeasurements(json, &graph);
    ASSERT_FALSE(refused) << field;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("conv.forward"));
  }
}

}  // namespace
}  // namespace ucudnn::train
