#include "solver/check/memory_host.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/solver/memory/modnn/hand_graph.h"

namespace ucudnn::memory_check {
namespace {

// A gradient that leaves, is used by the host or a prefetch, and leaves again;
// all of it in no time.
//
//   d2h   0 offload                        2 offload
//   host            1 update, or h2d: 1 prefetch
struct TwoOffloads {
  explicit TwoOffloads(EventOp user, std::vector<std::size_t> last_after)
      : hand(1) {
    gradient = hand.Block("dW", BlockKind::kWeightGradient, 1);
    hand.Task("update", TaskKind::kHostUpdate, {gradient}, {});
    graph = hand.graph();
    Add(EventOp::kOffload, MemoryStream::kD2h, {});
    Add(user,
        user == EventOp::kCompute ? MemoryStream::kHost : MemoryStream::kH2d,
        {0});
    Add(EventOp::kOffload, MemoryStream::kD2h, std::move(last_after));
  }

  void Add(EventOp op, MemoryStream stream, std::vector<std::size_t> after) {
    MemoryEvent& event = round.events.emplace_back();
    event.op = op;
    event.stream = stream;
    event.after = std::move(after);
  }

  // What the second offload gets.
  Status Replay() {
    const Result<EventOrder> order = EventOrder::Of(round, graph);
    EXPECT_TRUE(order) << order.error().message;
    HostCopies copies(round, graph, *order);
    EXPECT_TRUE(copies.Write(0, gradient, kStart));
    EXPECT_TRUE(copies.Read(1, gradient));
    return copies.Write(2, gradient, kStart);
  }

  test::HandGraph hand;
  std::size_t gradient = 0;
  TrainingGraph graph;
  MemoryRound round;
};

TEST(HostCopiesTest, ACopyIsNotReplacedWhileItIsRead) {
  for (const EventOp user : {EventOp::kCompute, EventOp::kPrefetch}) {
    const Status raced = TwoOffloads(user, {}).Replay();
    ASSERT_FALSE(raced);
    EXPECT_EQ(raced.error().message.find("R18 event 2 (offload dW on d2h)"), 0u)
        << raced.error().message;
    EXPECT_TRUE(TwoOffloads(user, {1}).Replay());
  }
}

TEST(HostCopiesTest, ACopyIsNotReadWhileItIsWritten) {
  TwoOffloads two(EventOp::kPrefetch, {});
  two.round.events[1].after.clear();
  const Result<EventOrder> order = EventOrder::Of(two.round, two.graph);
  ASSERT_TRUE(order) << order.error().message;
  HostCopies copies(two.round, two.graph, *order);
  ASSERT_TRUE(copies.Write(0, two.gradient, kStart));
  EXPECT_FALSE(copies.Read(1, two.gradient));
}

TEST(HostCopiesTest, CountsCopiesOnceButNoInputs) {
  TwoOffloads two(EventOp::kPrefetch, {1});
  const std::size_t input = two.hand.Block("x", BlockKind::kInput, 1);
  two.graph = two.hand.graph();
  const Result<EventOrder> order = EventOrder::Of(two.round, two.graph);
  ASSERT_TRUE(order) << order.error().message;
  HostCopies copies(two.round, two.graph, *order);
  copies.Begin(input);
  EXPECT_EQ(copies.Of(two.gradient), kNothing);
  copies.Begin(two.gradient);
  EXPECT_TRUE(copies.Write(0, two.gradient, 0));
  EXPECT_EQ(copies.Of(two.gradient), 0u);
  ASSERT_EQ(copies.sizes().size(), 1u);
  EXPECT_EQ(copies.sizes().at(two.gradient), Bytes(test::kUnitBytes));
}

}  // namespace
}  // namespace ucudnn::memory_check
