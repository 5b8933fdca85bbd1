#include "client/train/shares.h"

#include <gtest/gtest.h>

namespace ucudnn::train {
namespace {

TEST(ShareStepTest, IsAnEighthOrTheNextPartThatDivides) {
  EXPECT_EQ(ShareStep(BatchSize(64), 2), BatchSize(8));
  EXPECT_EQ(ShareStep(BatchSize(20), 2), BatchSize(2));
  EXPECT_EQ(ShareStep(BatchSize(13), 2), BatchSize(1));
  EXPECT_EQ(ShareStep(BatchSize(3), 2), BatchSize(1));
  EXPECT_EQ(ShareStep(BatchSize(64), 16), BatchSize(4));
}

}  // namespace
}  // namespace ucudnn::train
