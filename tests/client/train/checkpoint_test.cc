#include "client/examples/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn::train {
namespace {

using ::testing::HasSubstr;

Checkpoint Sample() {
  Checkpoint checkpoint;
  checkpoint.steps = 12;
  checkpoint.job = 0x123456789abcdefU;
  checkpoint.state.filters = {1.5F, -2.25F, 1e-30F};
  checkpoint.state.velocities = {0.0F, 3.0F, -1.0F};
  return checkpoint;
}

TEST(CheckpointTest, ReadsBackWhatItWrites) {
  const auto read = DecodeCheckpoint(Encode(Sample()), "file");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->steps, 12);
  EXPECT_EQ(read->job, Sample().job);
  EXPECT_EQ(read->state.filters, Sample().state.filters);
  EXPECT_EQ(read->state.velocities, Sample().state.velocities);
}

TEST(CheckpointTest, DetectsEveryDamagedByteAndTruncation) {
  const std::string whole = Encode(Sample());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    const auto read = DecodeCheckpoint(damaged, "file");
    ASSERT_FALSE(read) << i;
    EXPECT_THAT(read.error().message, HasSubstr("file: offset "));
    EXPECT_FALSE(DecodeCheckpoint(whole.substr(0, i), "file")) << i;
  }
  EXPECT_FALSE(DecodeCheckpoint(whole + "x", "file"));
}

}  // namespace
}  // namespace ucudnn::train
