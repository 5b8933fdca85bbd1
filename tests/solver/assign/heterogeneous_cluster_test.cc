// The figures that the papers state for their heterogeneous cluster.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "solver/assign/assign.h"
#include "tests/solver/assign/assign_instances.h"

namespace ucudnn {
namespace {

using test::Batches;
using test::ProblemOf;
using test::Table;
using ::testing::ElementsAre;

// Section IV-C of the CLUSTER 2018 paper: ResNet-18, forward and backward,
// batch 32, on K20Xm, GK210 (half a K80) and GTX 750Ti. Stated in its text:
//   750Ti and K20Xm with 16 images each    168.43 ms and 83.03 ms
//   that even split against the plan       1.37 times slower
//   two GK210 and a K20Xm                  12, 12 and 8 images
//   that against one GK210                 2.12 times faster
//   those and a 750Ti against one GK210    2.20 times faster
// The paper does not print the times behind its figure, so this checks
// consistency and reproduces nothing. Times here are linear through the stated
// points. The GK210's line is made from the third and fourth row, through
// (12, t) and (32, 2.12 t) with t the K20Xm's time for 8, so that those two
// come out shows only that the solver finds them. The second and the last row
// are not built in: lines give 1.48 instead of 1.37, and 2.25 instead of 2.20.
// Other lines do not help: the K20Xm takes 23 images in at most 119.4 ms
// whatever its fixed cost, so 1.37 (122.9 ms) would need a 750Ti with a fixed
// cost of more than 63 ms, which would not take part in the last row. So the
// measured times were not linear.
TEST(HeterogeneousClusterTest,
     IsConsistentWithTheStatedFiguresOfTheHeterogeneousCluster) {
  const auto line = [](double at_0, double per_image) {
    Table table;
    for (int b = 1; b <= 32; ++b) {
      table.push_back({BatchSize(b),
                       *FromMicroseconds(1e3 * (at_0 + per_image * b)),
                       Bytes(0)});
    }
    return table;
  };
  const Table gtx = line(0, 168.43 / 16);
  const Table k20 = line(0, 83.03 / 16);
  const double t = 8 * 83.03 / 16;
  const double rate = 1.12 * t / (32 - 12);
  const Table gk210 = line(t - 12 * rate, rate);

  const AssignProblem two = ProblemOf(32, {gtx, k20});
  const auto plan = SolveAssignment(two);
  const auto even = EvenSplit(two);
  ASSERT_TRUE(plan && even.has_value());
  EXPECT_EQ(*even, Nanoseconds(168'430'000));
  // Lines through the origin ignore the extra cost of small batches, so the
  // plan gains more than stated.
  const double slowdown = Microseconds(*even) / Microseconds(plan->makespan);
  EXPECT_GE(slowdown, 1.37);
  EXPECT_LT(slowdown, 1.5);

  AssignProblem cluster;
  cluster.batch = BatchSize(32);
  cluster.tables = {gk210, k20, gtx};
  cluster.gpus = {{.table = 0}, {.table = 0}, {.table = 1}};
  const auto three = SolveAssignment(cluster);
  ASSERT_TRUE(three);
  EXPECT_THAT(Batches(*three), ElementsAre(12, 12, 8));
  const double alone = Microseconds(gk210.back().time);
  EXPECT_NEAR(alone / Microseconds(three->makespan), 2.12, 0.005);
  cluster.gpus.push_back({.table = 2});
  const auto four = SolveAssignment(cluster);
  ASSERT_TRUE(four);
  EXPECT_NEAR(alone / Microseconds(four->makespan), 2.20, 0.05);
}

}  // namespace
}  // namespace ucudnn
