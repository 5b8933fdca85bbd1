#include "base/measured_point.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

TEST(MeasuredPointTest, TellsWhatRunsInEachBranch) {
  const Algorithm each = {"ALGO_3", "TENSOR_OP", Precision::kTf32};
  const Algorithm both = InTwoBranches(each);
  EXPECT_EQ(both, (Algorithm{"2xALGO_3", "TENSOR_OP", Precision::kTf32}));
  EXPECT_EQ(EachBranch(both), each);
  EXPECT_EQ(EachBranch(each), std::nullopt);
}

}  // namespace
}  // namespace ucudnn
