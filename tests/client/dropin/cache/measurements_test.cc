#include "client/dropin/cache/measurements.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

ConvProblem Problem() {
  ConvProblem problem;
  problem.geometry.channels = 3;
  return problem;
}

ProblemMeasurements Measurements() {
  ProblemMeasurements m;
  const Algorithm fft = {"FFT_TILING", "FMA", Precision::kFp32};
  const Algorithm gemm = {"GEMM", "DEFAULT", Precision::kTf32};
  m.batches[BatchSize(4)] = {
      64_MiB,
      {{BatchSize(4), fft, 12_MiB, Nanoseconds(12345), Nanoseconds(67), 5},
       {BatchSize(4), gemm, 0_B, Nanoseconds(23456), Nanoseconds(0), 1}}};
  for (const PointNumber& number : PointNumbers()) {
    number.set(m.batches[BatchSize(4)].points[1], 100 + number.field);
  }
  m.batches[BatchSize(1)] = {1_GiB, {}};
  m.singles = {
      {BatchSize(3), gemm, 2_MiB, Nanoseconds(321), Nanoseconds(1), 1}};
  m.queries = {{BatchSize(4), 64_MiB, false}, {BatchSize(4), 1_GiB, true}};
  return m;
}

TEST(MeasurementsTest, ReadsBackWhatItWrites) {
  const std::string text = ToJsonText(Measurements(), "kind", Problem());
  const auto read = ParseMeasurements(text, "kind", Problem());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, Measurements());
}

TEST(MeasurementsTest, ReadsFilesFromBeforeANumberWasNoted) {
  std::string text = ToJsonText(Measurements(), "kind", Problem());
  const std::string noted = "\"p90_ns\": 110,";
  ASSERT_NE(text.find(noted), std::string::npos) << text;
  text.replace(text.find(noted), noted.size(), "");
  const auto read = ParseMeasurements(text, "kind", Problem());
  ASSERT_TRUE(read) << read.error().message;
  ProblemMeasurements expected = Measurements();
  expected.batches[BatchSize(4)].points[1].p90 = Nanoseconds(0);
  EXPECT_EQ(*read, expected);
}

TEST(MeasurementsTest, RefusesWhatItDidNotWrite) {
  const std::string text = ToJsonText(Measurements(), "kind", Problem());
  ConvProblem other = Problem();
  other.op = ConvOp::kBackwardData;
  EXPECT_FALSE(ParseMeasurements(text, "another", Problem()));
  EXPECT_FALSE(ParseMeasurements(text, "kind", other));
  for (std::size_t cut = 0; cut + 2 < text.size(); cut += 7) {
    EXPECT_FALSE(ParseMeasurements(text.substr(0, cut), "kind", Problem()))
        << cut;
  }
  std::string negative = text;
  negative.replace(negative.find("12345"), 5, "-2345");
  EXPECT_FALSE(ParseMeasurements(negative, "kind", Problem()));
}

}  // namespace
}  // namespace ucudnn
