#include "coordinator/planning/drift.h"

#include <gtest/gtest.h>

#include <vector>

#include "coordinator/jobs/job_store.h"

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

// The first steps take `first` ms, then `others` more take `then` ms.
std::vector<Nanoseconds> Steps(std::int64_t first, std::int64_t then,
                               std::size_t others) {
  std::vector<Nanoseconds> times(kFirstSteps, Nanoseconds(first * 1'000'000));
  times.resize(kFirstSteps + others, Nanoseconds(then * 1'000'000));
  return times;
}

TEST(DriftTest, ComparesWithTheFirstSteps) {
  EXPECT_EQ(Drift(1, HistoryOf(Steps(10, 13, 8)), Nanoseconds(0), 0.1).value(),
            "rank 1: its last 8 steps took 13.0 ms (median; p90 13.0 ms), its "
            "first ones 10.0 ms: 30 % longer");
  EXPECT_EQ(Drift(0, HistoryOf(Steps(10, 5, 100)), Nanoseconds(0), 0.1).value(),
            "rank 0: its last 100 steps took 5.00 ms (median; p90 5.00 ms), "
            "its first ones 10.0 ms: 50 % shorter");
}

TEST(DriftTest, TreatsThePredictionAsALowerBound) {
  // Most of a step may be other work than convolutions.
  const StepHistory steps = HistoryOf(Steps(10, 10, 8));
  EXPECT_FALSE(Drift(0, steps, Nanoseconds(1'000'000), 0.1));
  EXPECT_FALSE(Drift(0, steps, Nanoseconds(11'000'000), 0.1));
  EXPECT_EQ(Drift(0, steps, Nanoseconds(20'000'000), 0.1).value(),
            "rank 0: its last 8 steps took 10.0 ms (median; p90 10.0 ms), what "
            "the plan predicts of them takes 20.0 ms: 50 % shorter");
  // This needs no first steps.
  EXPECT_TRUE(
      Drift(0, HistoryOf(UpTo(8)), Nanoseconds(20'000'000), 0.1).has_value());
}

TEST(DriftTest, IsSilentWithinToleranceAndWithoutEvidence) {
  EXPECT_FALSE(Drift(0, HistoryOf(Steps(10, 11, 8)), Nanoseconds(0), 0.11));
  EXPECT_FALSE(Drift(0, HistoryOf(Steps(10, 90, 7)), Nanoseconds(0), 0.1));
  EXPECT_FALSE(Drift(0, HistoryOf(UpTo(7)), Nanoseconds(1'000'000'000), 0.1));
  EXPECT_FALSE(Drift(0, HistoryOf({}), Nanoseconds(1), 0.1));
}

}  // namespace
}  // namespace ucudnn
