#include "device/training/task_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/training/build.h"
#include "tests/support/paper_networks.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

Result<std::vector<TaskOperation>> Bound(Graph graph) {
  UCUDNN_ASSIGN_OR_RETURN(const TrainingGraph training,
                          BuildTrainingGraph(graph, {}));
  return OperationsOf(graph, training);
}

// Two convolutions of one image, of these filters, joined by `join`.
template <class Join>
Graph Joined(std::int64_t a, std::int64_t b, const Join& join) {
  test::NetworkBuilder n("net", 2);
  const auto x = n.Input(3, 8);
  const auto first = n.Conv("a", x, a, 3);
  const auto y = join(n, first, n.Conv("b", x, b, 3));
  n.Gemm("fc", n.Flatten(y), 10);
  return n.Finish();
}

const TaskOperation& Find(const std::vector<TaskOperation>& operations,
                          TaskOperator what, TaskKind kind) {
  return *std::ranges::find_if(operations, [&](const TaskOperation& o) {
    return o.what == what && o.kind == kind;
  });
}

TEST(TaskPartsTest, PutsPartsOfRowsOneAfterTheOther) {
  const auto operations = Bound(Joined(4, 6, [](auto& n, auto a, auto b) {
    return n.Concat("cat", {a, b});
  }));
  ASSERT_TRUE(operations) << operations.error().message;
  for (const TaskKind kind : {TaskKind::kForward, TaskKind::kBackward}) {
    const TaskOperation& concat =
        Find(*operations, TaskOperator::kConcat, kind);
    EXPECT_EQ(concat.planes, 1);
    EXPECT_EQ(concat.plane, 10 * 64);
    ASSERT_EQ(concat.parts.size(), 2U);
    EXPECT_EQ(concat.parts[0].first, 0);
    EXPECT_EQ(concat.parts[0].width, 4 * 64);
    EXPECT_EQ(concat.parts[1].first, 4 * 64);
    EXPECT_EQ(concat.parts[1].width, 6 * 64);
    EXPECT_NE(concat.parts[0].block, concat.parts[1].block);
  }
}

// A slice of zeros before, and a column behind.
TEST(TaskPartsTest, PadsSlicesOfVolumes) {
  test::NetworkBuilder n("net", 2);
  const auto x = n.Conv("a", n.Input("input", {2, 3, 4, 8, 8}), 5, 3);
  const auto padded = n.AddNode("pad", "Pad", {x}, {2, 5, 5, 8, 9});
  n.Gemm("fc", n.Flatten(n.Conv("b", padded, 2, 3)), 10);
  Graph graph = n.Finish();
  for (Node& node : graph.nodes) {
    if (node.name == "pad") {
      node.pooling = {Window{.before = 1}, Window(), Window{.after = 1}};
    }
  }
  const auto operations = Bound(std::move(graph));
  ASSERT_TRUE(operations) << operations.error().message;
  const TaskOperation& pad =
      Find(*operations, TaskOperator::kConcat, TaskKind::kForward);
  EXPECT_TRUE(pad.pads);
  EXPECT_EQ(pad.planes, 5);
  EXPECT_EQ(pad.plane, 5 * 8 * 9);
  EXPECT_EQ(pad.slice, 8 * 9);
  EXPECT_EQ(pad.row, 9);
  ASSERT_EQ(pad.parts.size(), 1U);
  EXPECT_EQ(pad.parts[0].first, 8 * 9);
  EXPECT_EQ(pad.parts[0].depth, 4);
  EXPECT_EQ(pad.parts[0].height, 8);
  EXPECT_EQ(pad.parts[0].width, 8);
}

TEST(TaskPartsTest, RefusesToJoinImages) {
  Graph graph = Joined(4, 4, [](auto& n, auto a, auto b) {
    return n.Concat("cat", {a, b});
  });
  for (Node& node : graph.nodes) {
    if (node.name == "cat") node.numbers["axis"] = 0;
  }
  const auto refused = Bound(std::move(graph));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnimplemented);
  EXPECT_THAT(refused.error().message, HasSubstr("axis is 0 of 4"));
}

TEST(TaskPartsTest, PutsTheLargerFactorFirst) {
  const auto operations = Bound(Joined(4, 4, [](auto& n, auto a, auto b) {
    const auto s = n.Pool("s", b, 8, 8, 0, "GlobalAveragePool");
    // Of the larger one's shape, which comes second.
    return n.AddNode("mul", "Mul", {s, a}, {2, 4, 8, 8});
  }));
  ASSERT_TRUE(operations) << operations.error().message;
  const TaskOperation& forward =
      Find(*operations, TaskOperator::kMultiply, TaskKind::kForward);
  EXPECT_EQ(forward.span, 64);
  EXPECT_EQ(
      forward.x[0],
      *Find(*operations, TaskOperator::kConvolution, TaskKind::kForward).y);
}

TEST(TaskPartsTest, RefusesFactorsThatDoNotRepeatAtTheEnd) {
  const auto refused = Bound(Joined(4, 1, [](auto& n, auto a, auto b) {
    return n.Same("mul", "Mul", {a, b});  // one channel for all
  }));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnimplemented);
  EXPECT_THAT(refused.error().message, HasSubstr("mul"));
  EXPECT_THAT(refused.error().message, HasSubstr("[2, 1, 8, 8]"));
}

}  // namespace
}  // namespace ucudnn
