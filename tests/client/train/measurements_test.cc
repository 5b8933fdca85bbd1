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

}  // namespace
}  // namespace ucudnn::train
