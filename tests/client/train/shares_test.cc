#include "client/train/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn::train {
namespace {

using ::testing::ElementsAre;

TEST(ShareStepTest, IsAThirtySecondOrTheNextPartThatDivides) {
  EXPECT_EQ(ShareStep(BatchSize(256), 2), BatchSize(8));
  EXPECT_EQ(ShareStep(BatchSize(100), 2), BatchSize(2));
  EXPECT_EQ(ShareStep(BatchSize(127), 2), BatchSize(1));
  EXPECT_EQ(ShareStep(BatchSize(3), 2), BatchSize(1));
  EXPECT_EQ(ShareStep(BatchSize(256), 64), BatchSize(4));
}

TEST(FinerStepTest, IsAFourthOrTheNextPartThatDivides) {
  EXPECT_EQ(FinerStep(BatchSize(16)), BatchSize(4));
  EXPECT_EQ(FinerStep(BatchSize(15)), BatchSize(3));
  EXPECT_EQ(FinerStep(BatchSize(13)), BatchSize(1));
  EXPECT_EQ(FinerStep(BatchSize(2)), BatchSize(1));
  EXPECT_EQ(FinerStep(BatchSize(1)), BatchSize(1));
}

TEST(FirstBatchesTest, DoubleUpToAnEighthOfTheMiniBatch) {
  EXPECT_THAT(FirstBatches(BatchSize(256), BatchSize(8)),
              ElementsAre(BatchSize(8), BatchSize(16), BatchSize(32)));
  EXPECT_THAT(FirstBatches(BatchSize(15), BatchSize(1)),
              ElementsAre(BatchSize(1)));
  EXPECT_THAT(FirstBatches(BatchSize(1), BatchSize(1)),
              ElementsAre(BatchSize(1)));
}

}  // namespace
}  // namespace ucudnn::train
