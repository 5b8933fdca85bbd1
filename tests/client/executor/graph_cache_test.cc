#include "client/executor/graph_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace ucudnn {
namespace {

struct Graph {
  int number = 0;
};

class GraphCacheTest : public ::testing::Test {
 protected:
  GraphKey Key(std::size_t address) {
    return {{&memory_[address], nullptr, nullptr}, nullptr};
  }
  // What a caller does with a kernel's operands: 'l' if it launches a graph,
  // 'c' if it captures one, 'e' if it enqueues.
  char Call(const GraphKey& key) {
    if (cache_.Find(key) != nullptr) return 'l';
    if (!cache_.Wants(key)) return 'e';
    cache_.Put(key, std::make_unique<Graph>());
    return 'c';
  }
  std::string Calls(std::size_t from, std::size_t to) {
    std::string calls;
    for (; from < to; ++from) calls += Call(Key(from));
    return calls;
  }

  std::array<char, 4096> memory_ = {};
  GraphCache<Graph> cache_{8};
};

TEST_F(GraphCacheTest, CapturesWhatComesASecondTime) {
  EXPECT_EQ(Call(Key(0)), 'e');
  EXPECT_EQ(Call(Key(0)), 'c');
  EXPECT_EQ(Call(Key(0)), 'l');
  EXPECT_EQ(cache_.hits(), 1U);
}

TEST_F(GraphCacheTest, TellsOperandsScalarsAndWorkspacesApart) {
  ConvArgs args = {&memory_[0], &memory_[1], &memory_[2], 1, 0};
  const auto is_new = [&](const GraphKey& key) {
    return cache_.Find(key) == nullptr;
  };
  cache_.Put({args, &memory_[3]}, std::make_unique<Graph>());
  EXPECT_FALSE(is_new({args, &memory_[3]}));
  EXPECT_TRUE(is_new({args, &memory_[4]}));
  for (const void** operand : {&args.a, &args.b}) {
    const ConvArgs before = args;
    *operand = &memory_[5];
    EXPECT_TRUE(is_new({args, &memory_[3]}));
    args = before;
  }
  args.beta = 1;
  EXPECT_TRUE(is_new({args, &memory_[3]}));
  args = {args.a, args.b, args.out, 2, 0};
  EXPECT_TRUE(is_new({args, &memory_[3]}));
}

TEST_F(GraphCacheTest, ServesLayersOfOneShapeInTurns) {
  EXPECT_EQ(Calls(0, 8), "eeeeeeee");
  EXPECT_EQ(Calls(0, 8), "cccccccc");
  EXPECT_EQ(Calls(0, 8), "llllllll");
}

TEST_F(GraphCacheTest, KeepsGraphsThatAreUsedWhenThereAreTooManyOperands) {
  for (int i = 0; i < 2; ++i) Calls(0, 12);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Calls(0, 12), "lllllllleeee");
  EXPECT_EQ(cache_.captured(), 8U);
}

TEST_F(GraphCacheTest, ReplacesGraphsThatAreNotUsedAnyMore) {
  for (int i = 0; i < 4; ++i) Calls(0, 8);
  for (int i = 0; i < 6; ++i) Calls(100, 108);
  EXPECT_EQ(Calls(100, 108), "llllllll");
  EXPECT_EQ(cache_.size(), 8U);
}

TEST_F(GraphCacheTest, GivesUpAKernelThatNeverHits) {
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(Call(Key(i)), 'e');
  EXPECT_TRUE(cache_.given_up());
  EXPECT_EQ(Call(Key(5)), 'e');
  EXPECT_EQ(Call(Key(5)), 'e');
}

TEST_F(GraphCacheTest, CapturesLittleIfHitsAreRare) {
  // Every operand comes twice, so no graph is of use.
  for (std::size_t i = 0; i < 200; ++i) {
    Call(Key(i));
    Call(Key(i));
  }
  EXPECT_LE(cache_.captured(), 16U);
}

TEST_F(GraphCacheTest, ForgetsTheGraphsOfAChangedKernel) {
  Call(Key(0));
  Call(Key(0));
  cache_.Clear();
  EXPECT_EQ(Call(Key(0)), 'e');
  EXPECT_EQ(Call(Key(0)), 'c');
}

TEST(GraphBudgetTest, HasRoomUntilTheMostIsTaken) {
  GraphBudget budget(10_B);
  EXPECT_TRUE(budget.has_room());
  budget.Take(9_B);
  EXPECT_TRUE(budget.has_room());
  budget.Take(4_B);
  EXPECT_FALSE(budget.has_room());
  EXPECT_EQ(budget.taken(), 13_B);
  EXPECT_FALSE(GraphBudget(Bytes()).has_room());
}

}  // namespace
}  // namespace ucudnn
