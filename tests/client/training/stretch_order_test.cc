#include "client/training/stretch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::array<char, 64> memory;

UsedMemory::Range At(std::size_t begin, std::int64_t bytes) {
  return {memory.data() + begin, Bytes(bytes)};
}

TEST(StretchOrderTest, KeepsTheOrderOfAWriteAndAnotherUse) {
  const UsedMemory writes = {.writes = {At(8, 8)}};
  const UsedMemory reads = {.reads = {At(15, 4)}};
  const UsedMemory beside = {.reads = {At(16, 4)}, .writes = {At(0, 8)}};
  EXPECT_TRUE(MustFollow(writes, reads));
  EXPECT_TRUE(MustFollow(reads, writes));
  EXPECT_TRUE(MustFollow(writes, writes));
  EXPECT_FALSE(MustFollow(reads, reads));
  EXPECT_FALSE(MustFollow(writes, beside));
  EXPECT_FALSE(MustFollow(beside, writes));
}

TEST(StretchOrderTest, KeepsTheOrderOfTasksThatShareSomething) {
  const UsedMemory shares = {.shares = true};
  EXPECT_TRUE(MustFollow(shares, shares));
  EXPECT_FALSE(MustFollow(shares, {}));
  // A workspace of no bytes is nowhere.
  const UsedMemory nothing = {.writes = {At(8, 0)}};
  EXPECT_FALSE(MustFollow(nothing, {.writes = {At(0, 64)}}));
}

TEST(StretchOrderTest, LeavesOutWhatFollowsFromOtherEdges) {
  // 0 writes, 1 and 2 read that, 3 reads what they write, and what 0 writes.
  const std::vector<UsedMemory> tasks = {
      {.writes = {At(0, 8)}},
      {.reads = {At(0, 8)}, .writes = {At(8, 8)}},
      {.reads = {At(0, 8)}, .writes = {At(16, 8)}},
      {.reads = {At(0, 24)}, .writes = {At(24, 8)}}};
  const std::vector<std::size_t> own = {0, 1, 2, 3};
  EXPECT_THAT(OrderOf(tasks, own),
              ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(0),
                          ElementsAre(2, 1)));
  const std::vector<std::size_t> one(4);
  EXPECT_THAT(OrderOf(tasks, one), ElementsAre(IsEmpty(), ElementsAre(0),
                                               ElementsAre(1), ElementsAre(2)));
}

// Whether a path of edges leads from `to` back to `from`.
bool Reaches(const std::vector<std::vector<std::size_t>>& after,
             std::size_t from, std::size_t to) {
  return std::ranges::any_of(after[to], [&](std::size_t before) {
    return before == from || Reaches(after, from, before);
  });
}

// Byte by byte: whether the tasks touch one that either of them writes.
bool ShareAByte(const UsedMemory& a, const UsedMemory& b) {
  const auto has = [](const std::vector<UsedMemory::Range>& ranges,
                      const char* byte) {
    return std::ranges::any_of(ranges, [&](const UsedMemory::Range& range) {
      return byte >= range.begin && byte < range.begin + range.bytes.count();
    });
  };
  return std::ranges::any_of(memory, [&](const char& byte) {
    const bool a_writes = has(a.writes, &byte);
    const bool b_writes = has(b.writes, &byte);
    return (a_writes && (b_writes || has(b.reads, &byte))) ||
           (b_writes && has(a.reads, &byte));
  });
}

TEST(StretchOrderTest, FollowsWhatBruteForceSays) {
  std::mt19937 random(7);
  for (int trial = 0; trial < Trials(200); ++trial) {
    std::vector<UsedMemory> tasks(9);
    std::vector<std::size_t> lanes;
    for (UsedMemory& task : tasks) {
      lanes.push_back(random() % 5);
      for (auto* ranges : {&task.reads, &task.writes}) {
        for (auto n = random() % 3; n > 0; --n) {
          ranges->push_back(At(random() % 56, random() % 8));
        }
      }
      task.shares = random() % 6 == 0;
    }
    const auto after = OrderOf(tasks, lanes);
    ASSERT_EQ(after.size(), tasks.size());
    // Every pair that must keep its order is connected, and every edge is
    // between such a pair and the only path between its ends.
    for (std::size_t j = 0; j < tasks.size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        const bool must = ShareAByte(tasks[i], tasks[j]) ||
                          (tasks[i].shares && tasks[j].shares);
        EXPECT_EQ(MustFollow(tasks[i], tasks[j]), must);
        const bool ordered = must || lanes[i] == lanes[j];
        EXPECT_TRUE(!ordered || Reaches(after, i, j)) << i << " " << j;
      }
      for (const std::size_t i : after[j]) {
        ASSERT_LT(i, j);
        EXPECT_TRUE(MustFollow(tasks[i], tasks[j]) || lanes[i] == lanes[j]);
        auto fewer = after;
        std::erase(fewer[j], i);
        EXPECT_FALSE(Reaches(fewer, i, j));
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn
