#include "coordinator/measuring/measured_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

MeasuredPoint Point(const std::string& algorithm, std::int64_t time_ns) {
  return {.batch = BatchSize(8),
          .algorithm = {algorithm, "FMA"},
          .workspace = 8_MiB,
          .time = Nanoseconds(time_ns)};
}

PointOrigin Under(const std::string& driver, UnixMillis measured_ms) {
  return {.device = "GPU-1",
          .driver = driver,
          .measured_ms = measured_ms,
          .clocks = {1755, 2619, "power"}};
}

TEST(MeasuredBatchTest, KeepsTheLastOfEachPointWithItsOrigin) {
  const PointOrigin older = Under("old", 2000);
  const PointOrigin newer = Under("new", 1000);
  const MeasuredPoint a = Point("A", 1);
  const MeasuredPoint b = Point("B", 2);
  const MeasuredPoint again = Point("A", 3);
  MeasuredPoint larger = Point("A", 4);
  larger.workspace = 16_MiB;
  const std::vector<PointRef> points = {
      {&a, &older}, {&b, &older}, {&again, &newer}, {&larger, &newer}};
  const PackedBatch packed = Pack(points);
  EXPECT_EQ(packed.points, 3);
  EXPECT_EQ(packed.drivers, 2);
  EXPECT_EQ(packed.driver, "new");
  EXPECT_EQ(packed.measured_ms, 2000);
  const auto unpacked = Unpack(packed.body).value();
  ASSERT_THAT(unpacked, SizeIs(2));
  EXPECT_EQ(unpacked[0].origin, newer);
  EXPECT_THAT(unpacked[0].points, ElementsAre(again, larger));
  EXPECT_EQ(unpacked[1].origin, older);
  EXPECT_THAT(unpacked[1].points, ElementsAre(b));
}

TEST(MeasuredBatchTest, StoresEqualOriginsOnce) {
  const PointOrigin one = Under("d", 1);
  const PointOrigin same = Under("d", 1);
  const MeasuredPoint a = Point("A", 1);
  const MeasuredPoint b = Point("B", 2);
  const std::vector<PointRef> points = {{&a, &one}, {&b, &same}};
  const PackedBatch packed = Pack(points);
  EXPECT_EQ(packed.drivers, 1);
  EXPECT_THAT(Unpack(packed.body).value(), SizeIs(1));
}

TEST(MeasuredBatchTest, RefusesWhatItHasNotWritten) {
  const PointOrigin origin = Under("d", 1);
  MeasuredPoint nameless = Point("", 1);
  const std::vector<PointRef> points = {{&nameless, &origin}};
  for (const std::string& body : {std::string("\xFF"), Pack(points).body}) {
    const auto unpacked = Unpack(body);
    ASSERT_FALSE(unpacked);
    EXPECT_EQ(unpacked.error().code, Code::kDataLoss);
  }
}

}  // namespace
}  // namespace ucudnn
