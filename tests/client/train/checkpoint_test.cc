#include "client/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace ucudnn::train {
namespace {

using ::testing::HasSubstr;

Checkpoint Sample() {
  Checkpoint checkpoint;
  checkpoint.steps = 12;
  checkpoint.job = 0x123456789abcdefU;
  checkpoint.values = {1.5F, -2.25F, 1e-30F, 0.0F, 3.0F};
  return checkpoint;
}

TEST(CheckpointTest, ReadsBackWhatItWrites) {
  const auto read = DecodeCheckpoint(Encode(Sample()), "file");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->steps, 12);
  EXPECT_EQ(read->job, Sample().job);
  EXPECT_EQ(read->values, Sample().values);
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

// A training with another number of ranks has other blocks between its weights.
TEST(CheckpointTest, OrdersValuesByName) {
  const auto named = [](std::vector<std::string> names) {
    TrainingGraph graph;
    for (std::string& name : names) {
      graph.blocks.emplace_back().name = std::move(name);
    }
    return graph;
  };
  const Parameters written = {{0, {3.0F, 4.0F}}, {2, {1.0F, 2.0F}}};
  const std::vector<float> values = ValuesOf(named({"b", "c", "a"}), written);
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4}));
  const TrainingGraph graph = named({"a", "b"});
  Parameters read = {{0, {0, 0}}, {1, {0, 0}}};
  EXPECT_TRUE(SetValues(graph, values, &read));
  EXPECT_EQ(read, (Parameters{{0, {1, 2}}, {1, {3, 4}}}));
  EXPECT_FALSE(SetValues(graph, std::span(values).first(3), &read));
}

}  // namespace
}  // namespace ucudnn::train
