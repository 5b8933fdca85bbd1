#include "solver/memory/split/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/training/build.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph Split(const Graph& graph, const std::string& options) {
  Result<Graph> split = SplitGraph(graph, ParseSplitOptions(options).value());
  EXPECT_TRUE(split) << split.error().message;
  return split.value_or(Graph());
}

std::string ErrorOf(const Graph& graph, const std::string& options) {
  const Result<Graph> split =
      SplitGraph(graph, ParseSplitOptions(options).value());
  if (split) return "no error";
  EXPECT_EQ(split.error().code, Code::kInvalidArgument);
  return split.error().message;
}

// "conv.h0w1 of 4x5"
std::vector<std::string> Shapes(const Graph& graph) {
  std::vector<std::string> list;
  for (const Node& node : graph.nodes) {
    const std::vector<std::int64_t>& shape =
        graph.tensors[node.outputs[0]].shape;
    std::string line = node.name + " of ";
    for (std::size_t i = 2; i < shape.size(); ++i) {
      line += (i > 2 ? "x" : "") + std::to_string(shape[i]);
    }
    list.push_back(std::move(line));
  }
  return list;
}

TEST(SplitGraphTest, ComputesPartAfterPartAndJoinsThem) {
  test::NetworkBuilder n("net", 2);
  auto x = n.Relu("a", n.Conv("a", n.Input(3, 12), 4, 3));
  x = n.Pool("p", x, 2, 2);
  n.Conv("c", n.Conv("b", x, 4, 5), 4, 3);
  const Graph graph = n.Finish();
  const Graph split = Split(graph, "0.6,2,1");
  EXPECT_EQ(split.name, "net (split 0.6,2,1)");
  EXPECT_THAT(Shapes(split),
              ElementsAre("a.h0w0 of 6x12", "a.relu.h0w0 of 6x12",
                          "p.h0w0 of 3x6", "b.h0w0 of 3x6", "a.h1w0 of 6x12",
                          "a.relu.h1w0 of 6x12", "p.h1w0 of 3x6",
                          "b.h1w0 of 3x6", "b.join of 6x6", "c of 6x6"));
  // The image comes in two inputs.
  EXPECT_EQ(split.tensors[split.nodes[0].inputs[0]].shape,
            (std::vector<std::int64_t>{2, 3, 6, 12}));
  EXPECT_EQ(split.tensors[split.nodes[0].inputs[0]].name, "input.h0w0");
  EXPECT_EQ(split.tensors[split.nodes[4].inputs[0]].name, "input.h1w0");
  // Both parts have the layer's parameters.
  EXPECT_EQ(split.nodes[0].inputs[1], split.nodes[4].inputs[1]);
  const ConvGeometry& g = split.nodes[0].convolution->geometry;
  EXPECT_EQ(g.input, (Spatial{1, 6, 12}));
  EXPECT_EQ(g.padding, (Spatial{0, 1, 1}));
}

TEST(SplitGraphTest, PadsCopiesWherePaddingIsUneven) {
  // An even window: 2 elements of padding before, 1 after, at inner edges.
  test::NetworkBuilder n("net", 1);
  n.Conv("a", n.Input(1, 9), 1, 4, 1, 2, false);
  const Graph split = Split(n.Finish(), "1,2,1");
  EXPECT_THAT(Shapes(split), ElementsAre("a.h0w0.pad of 8x9", "a.h0w0 of 5x10",
                                         "a.h1w0 of 5x10", "a.join of 10x10"));
  // The output of 10 is cut before 5: lb = 3, ub = 6, I = 5.
  EXPECT_EQ(split.nodes[0].pooling,
            (std::array{Window(), Window{1, 1, 2, 1}, Window()}));
  const ConvGeometry& first = split.nodes[1].convolution->geometry;
  EXPECT_EQ(first.input, (Spatial{1, 8, 9}));
  EXPECT_EQ(first.padding, (Spatial{0, 0, 2}));
  const ConvGeometry& second = split.nodes[2].convolution->geometry;
  EXPECT_EQ(second.input, (Spatial{1, 4, 9}));
  EXPECT_EQ(second.padding, (Spatial{0, 2, 2}));
}

TEST(SplitGraphTest, EndsWhereASingleTensorIsLive) {
  // Convolutions conv1, a1, a2, b1, b2 and b3; inside a residual block, the
  // block's input is live too.
  const Graph graph = test::SmallResidual(2);
  const auto join = [&](const std::string& depth) -> std::string {
    for (const Node& node : Split(graph, depth + ",2,2").nodes) {
      if (node.name.ends_with(".join")) return node.name;
    }
    return "none";
  };
  EXPECT_EQ(join("0.1"), "conv1.join");
  EXPECT_EQ(join("0.2"), "a.add.join");
  EXPECT_EQ(join("0.5"), "a.add.join");
  EXPECT_EQ(join("0.6"), "b.add.join");
}

// Whether every node of the graph fits its operands.
void ExpectShapesAgree(const Graph& graph) {
  const auto extent = [&](std::size_t tensor, std::size_t spatial) {
    const std::vector<std::int64_t>& shape = graph.tensors[tensor].shape;
    return shape.size() < 4 ? 1 : shape[shape.size() - 3 + spatial];
  };
  for (const Node& node : graph.nodes) {
    for (const std::size_t axis : {1, 2}) {
      const std::int64_t in = extent(node.inputs[0], axis);
      const std::int64_t out = extent(node.outputs[0], axis);
      if (node.convolution) {
        EXPECT_EQ(node.convolution->geometry.output()[axis], out) << node.name;
        EXPECT_GE(node.convolution->geometry.input[axis], in) << node.name;
        EXPECT_TRUE(Validate(node.convolution->geometry)) << node.name;
      } else if (node.pooling) {
        EXPECT_EQ((*node.pooling)[axis].OutputOf(in), out) << node.name;
      } else if (node.op_type == "Add" || node.op_type == "Relu") {
        for (const std::size_t input : node.inputs) {
          EXPECT_EQ(extent(input, axis), out) << node.name;
        }
      }
    }
  }
}

// The sizes of the parts of every tensor that is split, by its name: how many
// elements they have together.
std::map<std::string, std::int64_t> Elements(const Graph& graph) {
  std::map<std::string, std::int64_t> sums;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.name.ends_with(".padded")) continue;  // copies
    std::int64_t elements = 1;
    for (const std::int64_t size : tensor.shape) elements *= size;
    const std::size_t suffix = tensor.name.rfind(".h");
    sums[tensor.name.substr(0, suffix)] += elements;
  }
  return sums;
}

TEST(SplitGraphTest, PartsOfEveryTensorAddUpToIt) {
  int splits = 0;
  for (const Graph& graph :
       {test::SmallChain(2), test::SmallResidual(2), test::SmallInception(2),
        test::PaperAlexNet(1), test::PaperVgg19(1), test::PaperResNet50(1)}) {
    const std::map<std::string, std::int64_t> whole = Elements(graph);
    for (const char* depth : {"0.1", "0.5", "0.75"}) {
      for (const char* parts : {"1,2", "2,1", "2,2", "3,2", "4,4"}) {
        for (const char* kind : {"", ",stochastic"}) {
          const Result<Graph> split = SplitGraph(
              graph, ParseSplitOptions(std::string(depth) + "," + parts + kind)
                         .value());
          if (!split) continue;
          ++splits;
          ExpectShapesAgree(*split);
          for (const auto& [name, elements] : Elements(*split)) {
            const auto found = whole.find(name);
            if (found == whole.end()) continue;
            if (*kind == '\0' && name != "input") {
              // The join has the tensor too.
              EXPECT_EQ(elements % found->second, 0) << name;
            } else {
              EXPECT_GE(elements, found->second) << name;
            }
          }
          const Result<TrainingGraph> built = BuildTrainingGraph(*split, {});
          EXPECT_TRUE(built) << built.error().message;
        }
      }
    }
  }
  EXPECT_GT(splits, 100);
}

TEST(SplitGraphTest, NeedsNoCopiesOfTheUsualConvolutions) {
  for (const Graph& graph : {test::PaperVgg19(1), test::PaperResNet50(1)}) {
    for (const char* parts : {"0.75,2,2", "0.5,3,2,stochastic"}) {
      for (const Node& node : Split(graph, parts).nodes) {
        EXPECT_NE(node.op_type, "Pad") << node.name;
      }
    }
  }
}

// Draws are networks of their own, and the graph for plans has room for each.
TEST(SplitGraphTest, DrawsDifferInSizesAloneAndFitTheLargestParts) {
  for (const Graph& graph :
       {test::SmallChain(2), test::SmallResidual(2), test::PaperAlexNet(1)}) {
    const SplitOptions options = *ParseSplitOptions("0.5,2,3,stochastic");
    const Graph largest = *SplitGraph(graph, options);
    const std::map<std::string, std::int64_t> whole = Elements(graph);
    std::set<std::vector<std::string>> seen;
    for (std::uint64_t draw = 0; draw < 20; ++draw) {
      const Graph drawn = *SplitGraph(graph, options, draw);
      EXPECT_EQ(drawn, *SplitGraph(graph, options, draw));
      seen.insert(Shapes(drawn));
      ExpectShapesAgree(drawn);
      const auto sums = Elements(drawn);
      EXPECT_EQ(sums.at("input"), whole.at("input"));
      ASSERT_EQ(drawn.nodes.size(), largest.nodes.size());
      for (std::size_t i = 0; i < drawn.nodes.size(); ++i) {
        EXPECT_EQ(drawn.nodes[i].name, largest.nodes[i].name);
        EXPECT_EQ(drawn.nodes[i].inputs, largest.nodes[i].inputs);
        EXPECT_EQ(drawn.nodes[i].outputs, largest.nodes[i].outputs);
      }
      ASSERT_EQ(drawn.tensors.size(), largest.tensors.size());
      for (std::size_t t = 0; t < drawn.tensors.size(); ++t) {
        EXPECT_LE(drawn.tensors[t].size(), largest.tensors[t].size());
      }
    }
    EXPECT_GT(seen.size(), 2U);
  }
}

TEST(SplitGraphTest, StochasticPartsAreTheLargestOfAllDraws) {
  test::NetworkBuilder n("net", 1);
  n.Pool("p", n.Conv("a", n.Input(1, 40), 1, 3), 2, 2);
  const Graph graph = n.Finish();
  // 20 rows, 2 parts: the cut is drawn from 10 - 2 to 10 + 2, before the
  // pooling from 16 to 24.
  EXPECT_THAT(Shapes(Split(graph, "1,2,1,stochastic")),
              ElementsAre("a.h0w0 of 24x40", "a.h1w0 of 24x40",
                          "a.join of 40x40", "p of 20x20"));
}

TEST(SplitGraphTest, SharedParametersAreUpdatedOnce) {
  test::NetworkBuilder n("net", 2);
  n.Conv("b", n.BatchNorm("bn", n.Conv("a", n.Input(3, 8), 4, 3)), 4, 3);
  const TrainingGraph graph =
      BuildTrainingGraph(Split(n.Finish(), "1,1,2"), {}).value();
  std::vector<std::string> updates;
  int statistics = 0;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kUpdate) updates.push_back(task.name);
  }
  for (const MemoryBlock& block : graph.blocks) {
    statistics += block.kind == BlockKind::kStatistics ? 1 : 0;
  }
  EXPECT_THAT(updates,
              ElementsAre("b.h0w0.update", "bn.h0w0.update", "a.h0w0.update"));
  EXPECT_EQ(statistics, 2);  // of each part
}

TEST(SplitGraphTest, NamesTheNodeThatCannotBeSplit) {
  test::NetworkBuilder n("net", 1);
  auto x = n.Conv("a", n.Input(1, 8), 1, 3);
  x = n.Same("odd", "Resize", {x});
  n.Conv("b", x, 1, 3);
  const Graph graph = n.Finish();
  EXPECT_EQ(ErrorOf(graph, "0.5,2,2"), "no error");
  EXPECT_THAT(ErrorOf(graph, "1,2,2"), HasSubstr("node 'odd' (Resize)"));
}

TEST(SplitGraphTest, NamesTheDeepestDepth) {
  test::NetworkBuilder n("net", 1);
  const auto x = n.Conv("a", n.Input(1, 8), 1, 3);
  const auto y = n.Conv("b", x, 1, 3);
  // Two outputs: both are live to the end.
  n.Relu("left", y);
  n.Conv("c", y, 1, 3);
  EXPECT_THAT(ErrorOf(n.Finish(), "0.9,2,2"),
              HasSubstr("depth 0.9: after 3 of 3 convolutions or more no "
                        "tensor with height and width is live alone; up to "
                        "0.66 is accepted"));
}

TEST(SplitGraphTest, RefusesMorePartsThanElements) {
  test::NetworkBuilder n("net", 1);
  n.Pool("p", n.Conv("a", n.Input(1, 8), 1, 3, 4), 2, 2);
  const Graph graph = n.Finish();
  EXPECT_THAT(ErrorOf(graph, "1,3,2"),
              HasSubstr("3 parts of the height of tensor 'a', which is 2; 1 "
                        "to 2 are accepted"));
}

TEST(SplitGraphTest, RefusesReadersThatCannotShareACut) {
  // Of 7 rows one operand takes 0, 2, 4 and 6, the other 1, 3, 5 and padding
  // before them.
  test::NetworkBuilder n("net", 1);
  const auto x = n.Conv("a", n.Input(1, 7), 1, 3);
  const auto even = n.Pool("even", x, 1, 2);
  const auto odd = n.Pool("odd", x, 1, 2);
  n.Conv("b", n.Same("sum", "Add", {even, odd}), 1, 1);
  Graph graph = n.Finish();
  EXPECT_EQ(ErrorOf(graph, "1,2,2"), "no error");
  const Window window{1, 2, 1, 0};
  graph.nodes[2].pooling = {Window(), window, window};
  EXPECT_THAT(ErrorOf(graph, "1,2,2"),
              HasSubstr("node 'even' (MaxPool) needs the height of its input "
                        "cut at 4 to 4, where its 7 elements and the other "
                        "nodes allow 3 to 3"));
}

TEST(SplitGraphTest, CutsTheStridedBlocksOfResNet) {
  // The 3 x 3 window of stride 2 would be cut before 2 O - 1, the middle, but
  // the projection beside it only before 2 O.
  test::NetworkBuilder n("net", 1);
  const auto x = n.Conv("a", n.Input(1, 16), 1, 3);
  const auto y = n.Conv("b2", n.Conv("b1", x, 1, 1), 1, 3, 2);
  const auto z = n.Conv("b3", x, 1, 1, 2);
  n.Same("sum", "Add", {y, z});
  EXPECT_THAT(Shapes(Split(n.Finish(), "1,2,1")),
              ::testing::IsSupersetOf({"a.h0w0 of 8x16", "b1.h0w0 of 8x16",
                                       "b2.h0w0 of 4x8", "b3.h0w0 of 4x8"}));
}

TEST(SplitGraphTest, RefusesOperatorsThatMixPlaces) {
  // A concatenation over the height.
  test::NetworkBuilder n("net", 1);
  const auto x = n.Conv("a", n.Input(2, 8), 2, 3);
  const auto y =
      n.AddNode("rows", "Concat", {x, n.Relu("a", x)}, {1, 2, 16, 8});
  n.Conv("b", y, 1, 3);
  EXPECT_THAT(ErrorOf(n.Finish(), "1,2,2"),
              HasSubstr("node 'rows' (Concat) cannot be split: it makes [1, 2, "
                        "16, 8] of [1, 2, 8, 8]"));
}

TEST(SplitGraphTest, ComputesConstantsOnce) {
  test::NetworkBuilder n("net", 1);
  const auto x = n.Conv("a", n.Input(1, 8), 1, 3);
  const auto limit = n.AddNode("limit", "Constant", {}, {});
  n.Conv("b", n.AddNode("clip", "Clip", {x, limit}, {1, 1, 8, 8}), 1, 3);
  Graph graph = n.Finish();
  const Graph split = Split(graph, "1,2,1");
  EXPECT_EQ(split.nodes[0].name, "limit");
  EXPECT_EQ(split.nodes[2].name, "clip.h0w0");
  EXPECT_EQ(split.nodes[2].inputs[1], split.nodes[0].outputs[0]);
}

TEST(SplitGraphTest, RefusesPoolingWithUnknownWindows) {
  test::NetworkBuilder n("net", 1);
  n.Conv("b", n.Pool("p", n.Conv("a", n.Input(1, 8), 1, 3), 2, 2), 1, 3);
  Graph graph = n.Finish();
  graph.nodes[1].pooling.reset();
  EXPECT_THAT(ErrorOf(graph, "1,2,2"), HasSubstr("node 'p' (MaxPool)"));
}

TEST(ParseSplitOptionsTest, ReadsDepthPartsAndKind) {
  const SplitOptions options = ParseSplitOptions("0.5,2,3").value();
  EXPECT_EQ(options.depth, 0.5);
  EXPECT_EQ(options.height_parts, 2);
  EXPECT_EQ(options.width_parts, 3);
  EXPECT_FALSE(options.stochastic);
  EXPECT_TRUE(ParseSplitOptions("1,1,2,stochastic")->stochastic);
}

TEST(ParseSplitOptionsTest, NamesTheFieldThatIsWrong) {
  const auto error = [](const char* text) {
    const Result<SplitOptions> options = ParseSplitOptions(text);
    return options ? "no error" : options.error().message;
  };
  EXPECT_THAT(error(""), HasSubstr("DEPTH,H,W"));
  EXPECT_THAT(error("0.5,2"), HasSubstr("DEPTH,H,W"));
  EXPECT_THAT(error("0.5,2,2,random"), HasSubstr("DEPTH,H,W,stochastic"));
  EXPECT_THAT(error("0,2,2"), HasSubstr("depth '0'"));
  EXPECT_THAT(error("1.01,2,2"), HasSubstr("depth '1.01'"));
  EXPECT_THAT(error("nan,2,2"), HasSubstr("depth 'nan'"));
  EXPECT_THAT(error("0.5,0,2"), HasSubstr("parts of the height"));
  EXPECT_THAT(error("0.5,2,x"), HasSubstr("parts of the width"));
  EXPECT_THAT(error("0.5,1,1"), HasSubstr("1 x 1 parts"));
  EXPECT_THAT(error("0.5,9,9"), HasSubstr("9 x 9 parts"));
}

}  // namespace
}  // namespace ucudnn
