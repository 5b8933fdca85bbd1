#include "coordinator/drift.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

std::vector<Nanoseconds> UpTo(std::int64_t n) {
  std::vector<Nanoseconds> times;
  for (std::int64_t i = n; i > 0; --i) times.emplace_back(i * 1'000'000);
  return times;
}

TEST(DriftTest, SummarizesStepsInAnyOrder) {
  const StepSummary ten = Summarize(UpTo(10));
  EXPECT_EQ(ten.samples, 10);
  EXPECT_EQ(ten.last, Nanoseconds(1'000'000));
  EXPECT_EQ(ten.median, Nanoseconds(5'500'000));
  EXPECT_EQ(ten.p90, Nanoseconds(9'000'000));
  EXPECT_EQ(Summarize(UpTo(1)).p90, Nanoseconds(1'000'000));
  EXPECT_EQ(Summarize(UpTo(11)).p90, Nanoseconds(10'000'000));
  EXPECT_EQ(Summarize({}).samples, 0);
}

TEST(DriftTest, TellsTheEvidence) {
  const StepSummary steps = Summarize(UpTo(10));
  EXPECT_EQ(Drift(1, steps, Nanoseconds(5'000'000), 0.05).value(),
            "rank 1: its last 10 steps took 5.50 ms (median; p90 9.00 ms), "
            "5.00 ms were predicted: 10 % longer");
  EXPECT_EQ(Drift(1, steps, Nanoseconds(11'000'000), 0.1).value(),
            "rank 1: its last 10 steps took 5.50 ms (median; p90 9.00 ms), "
            "11.0 ms were predicted: 50 % shorter");
}

TEST(DriftTest, IsSilentWithinToleranceAndWithoutEvidence) {
  const StepSummary steps = Summarize(UpTo(10));
  EXPECT_FALSE(Drift(0, steps, Nanoseconds(5'000'000), 0.11));
  EXPECT_FALSE(Drift(0, steps, Nanoseconds(0), 0.1));
  EXPECT_FALSE(Drift(0, Summarize(UpTo(7)), Nanoseconds(1), 0.1));
}

}  // namespace
}  // namespace ucudnn
