#include "coordinator/store/group_commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

using Squares = GroupCommit<int, int>;

std::vector<int> SquaresOf(std::span<const int* const> items) {
  std::vector<int> squares;
  for (const int* item : items) squares.push_back(*item * *item);
  return squares;
}

// Runs `first` by itself, and the others while it runs; returns the sizes of
// the groups as `commit` saw them, and the answers to the others.
struct Ran {
  std::vector<std::size_t> groups;
  std::vector<int> answers;
};
Ran RunBeside(int first, const std::vector<int>& others,
              const Squares::Commit& commit) {
  Ran ran;
  ran.answers.resize(others.size());
  Squares* running = nullptr;
  Squares squares([&](std::span<const int* const> items) {
    ran.groups.push_back(items.size());
    while (ran.groups.size() == 1 && running->open() < 1 + others.size()) {
      std::this_thread::yield();
    }
    return commit(items);
  });
  running = &squares;
  std::jthread one([&] { EXPECT_EQ(squares.Run(first), first * first); });
  while (squares.open() == 0) std::this_thread::yield();
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < others.size(); ++i) {
    threads.emplace_back([&, i] { ran.answers[i] = squares.Run(others[i]); });
  }
  threads.clear();
  return ran;
}

TEST(GroupCommitTest, DoesAtOnceWhatArrivesAlone) {
  Squares squares(SquaresOf);
  EXPECT_EQ(squares.Run(3), 9);
  EXPECT_EQ(squares.Run(4), 16);
}

TEST(GroupCommitTest, DoesTogetherWhatArrivesWhileATransactionRuns) {
  const Ran ran = RunBeside(1, {2, 3, 4}, SquaresOf);
  EXPECT_THAT(ran.groups, ElementsAre(1, 3));
  EXPECT_THAT(ran.answers, ElementsAre(4, 9, 16));
}

TEST(GroupCommitTest, LeavesToTheNextWhatDoesNotSuitOneTransaction) {
  const Ran ran = RunBeside(1, {2, 3, 4, 5, 6}, [](auto items) {
    return SquaresOf(items.first(std::min<std::size_t>(2, items.size())));
  });
  EXPECT_THAT(ran.groups, ElementsAre(1, 5, 3, 1));
  EXPECT_THAT(ran.answers, UnorderedElementsAre(4, 9, 16, 25, 36));
}

TEST(GroupCommitTest, BeginsAnotherTransactionOnceEnoughCallsWait) {
  constexpr std::size_t kEnough = 16;
  std::atomic<int> running = 0;
  std::atomic<std::size_t> second = 0;
  // Both transactions wait until the other runs.
  Squares squares(
      [&](std::span<const int* const> items) {
        if (++running == 2) second = items.size();
        while (running < 2) std::this_thread::yield();
        return SquaresOf(items);
      },
      /*at_once=*/2);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { EXPECT_EQ(squares.Run(1), 1); });
  while (running == 0) std::this_thread::yield();
  for (std::size_t i = 0; i < kEnough; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(squares.Run(2), 4); });
  }
  threads.clear();
  EXPECT_EQ(second, kEnough);
  EXPECT_EQ(squares.open(), 0U);
}

TEST(GroupCommitTest, DoesForOthersWhatItsOwnCallerNoLongerWants) {
  const Call call([]() -> Status { return Fail(Code::kCancelled, "gone"); });
  Squares squares([](std::span<const int* const> items) {
    EXPECT_TRUE(Call::Check());
    return SquaresOf(items);
  });
  EXPECT_EQ(squares.Run(3), 9);
  EXPECT_FALSE(Call::Check());
}

}  // namespace
}  // namespace ucudnn
