#include "solver/arena/concurrency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/onnx/network_file.h"
#include "tests/solver/instances.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using test::Draw;
using test::Random;
using ::testing::HasSubstr;
using Kind = Concurrency::Kind;
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

// "(0 | 1-2)-3": Parallel in parentheses, Serial by hyphens.
std::string Text(const Concurrency& c, std::size_t node) {
  const Concurrency::Node& here = c.nodes[node];
  if (here.kind == Kind::kLeaf) return std::to_string(here.leaf);
  std::string text;
  for (const std::size_t part : here.parts) {
    if (!text.empty()) text += here.kind == Kind::kSerial ? "-" : " | ";
    text += Text(c, part);
  }
  return here.kind == Kind::kSerial ? text : "(" + text + ")";
}

std::string Text(const Concurrency& c) { return Text(c, c.nodes.size() - 1); }

PartialOrder Order(std::size_t size, const Pairs& edges) {
  PartialOrder order(size);
  for (const auto& [a, b] : edges) order.Put(a, b);
  return order;
}

Pairs Incomparable(const PartialOrder& order) {
  Pairs pairs;
  for (std::size_t a = 0; a < order.size(); ++a) {
    for (std::size_t b = a + 1; b < order.size(); ++b) {
      if (!order.Before(a, b) && !order.Before(b, a)) pairs.emplace_back(a, b);
    }
  }
  return pairs;
}

TEST(ConcurrencyTest, DecomposesForksAndChains) {
  EXPECT_EQ(Text(Decompose(Order(1, {}))), "0");
  EXPECT_EQ(Text(Decompose(Order(3, {{0, 1}, {1, 2}}))), "0-1-2");
  EXPECT_EQ(Text(Decompose(Order(3, {}))), "(0 | 1 | 2)");
  EXPECT_EQ(Text(Decompose(Order(5, {{0, 1}, {0, 2}, {2, 3}, {1, 4}, {3, 4}}))),
            "0-(1 | 2-3)-4");
  // Every element of one pair before every one of the next.
  EXPECT_EQ(Text(Decompose(Order(4, {{0, 2}, {0, 3}, {1, 2}, {1, 3}}))),
            "(0 | 1)-(2 | 3)");
}

TEST(ConcurrencyTest, ReplacesOrdersThatAreNotSeriesParallelByChains) {
  const PartialOrder n = Order(4, {{0, 2}, {1, 2}, {1, 3}});
  const Concurrency c = Decompose(n);
  EXPECT_FALSE(c.exact);
  EXPECT_EQ(Text(c), "(0-2 | 1-3)");
  EXPECT_TRUE(Decompose(Order(4, {{0, 2}, {1, 3}})).exact);
}

TEST(ConcurrencyTest, MakesChainsAndFullConcurrency) {
  EXPECT_EQ(Text(Chain(3)), "0-1-2");
  EXPECT_EQ(Text(AllConcurrent(3)), "(0 | 1 | 2)");
  EXPECT_EQ(Text(Chain(1)), "0");
  EXPECT_TRUE(ConcurrentPairs(Chain(4)).empty());
  EXPECT_EQ(ConcurrentPairs(AllConcurrent(3)), (Pairs{{0, 1}, {0, 2}, {1, 2}}));
}

TEST(ConcurrencyTest, NeverLosesAPairThatMayCoincide) {
  Random random(21);
  int exact = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto size = static_cast<std::size_t>(Draw(random, 1, 12));
    const std::int64_t density = Draw(random, 1, 12);
    PartialOrder order(size);
    for (std::size_t b = 0; b < size; ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        if (Draw(random, 0, 12) < density) order.Put(a, b);
      }
    }
    const Concurrency c = Decompose(order);
    ASSERT_TRUE(Validate(c, size));
    const Pairs found = ConcurrentPairs(c);
    const Pairs real = Incomparable(order);
    EXPECT_TRUE(
        std::includes(found.begin(), found.end(), real.begin(), real.end()));
    EXPECT_EQ(c.exact, found == real) << i;
    exact += c.exact ? 1 : 0;
  }
  EXPECT_GT(exact, 500);
  EXPECT_LT(exact, 2900);
}

TEST(ConcurrencyTest, NestsAsDeeplyAsTheOrderDoes) {
  // 0 beside (1 before (2 beside (3 before ...))).
  constexpr std::size_t kSize = 600;
  PartialOrder order(kSize);
  for (std::size_t a = 1; a < kSize; a += 2) {
    for (std::size_t b = a + 1; b < kSize; ++b) order.Put(a, b);
  }
  const Concurrency c = Decompose(order);
  EXPECT_TRUE(c.exact);
  ASSERT_TRUE(Validate(c, kSize));
  EXPECT_EQ(ConcurrentPairs(c), Incomparable(order));
}

TEST(ConcurrencyTest, RefusesStructuresThatAreNotATreeOfTheKernels) {
  const auto why = [](Concurrency c, std::size_t leaves) {
    const Status status = Validate(c, leaves);
    return status ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(why(Chain(3), 3), "valid");
  EXPECT_THAT(why(Chain(3), 4), HasSubstr("misses 1 of 4"));
  EXPECT_THAT(why(Chain(3), 2), HasSubstr("beyond the 2 kernels"));
  EXPECT_THAT(why({}, 0), HasSubstr("0 roots"));
  Concurrency c = Chain(2);
  c.nodes[2].parts = {0, 0};
  EXPECT_THAT(why(c, 2), HasSubstr("is a part already"));
  c.nodes[2].parts = {0, 2};
  EXPECT_THAT(why(c, 2), HasSubstr("does not come before"));
  c.nodes[2].parts = {};
  EXPECT_THAT(why(c, 2), HasSubstr("has 0 parts"));
  c = Chain(2);
  c.nodes[1].leaf = 0;
  EXPECT_THAT(why(c, 2), HasSubstr("leaf 0 twice"));
  c.nodes.pop_back();
  c.nodes[1].leaf = 1;
  EXPECT_THAT(why(c, 2), HasSubstr("2 roots"));
}

TEST(ConcurrencyTest, MirrorsTheForwardPassInTraining) {
  const Concurrency layers =
      Decompose(Order(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  using enum ConvOp;
  const std::vector<LayerKernel> all = {
      {0, kForward},        {0, kBackwardFilter}, {1, kForward},
      {1, kBackwardData},   {1, kBackwardFilter}, {2, kForward},
      {2, kBackwardFilter}, {2, kBackwardData},   {3, kForward},
      {3, kBackwardData},   {3, kBackwardFilter}};
  const Concurrency training = OfTraining(layers, all).value();
  ASSERT_TRUE(Validate(training, all.size()));
  EXPECT_EQ(Text(training), "0-(2 | 5)-8-9-10-(7-6 | 3-4)-1");
  // Layers without kernels drop out, with what is left of their modules.
  const std::vector<LayerKernel> few = {
      {0, kForward}, {2, kForward}, {1, kBackwardFilter}};
  EXPECT_EQ(Text(OfTraining(layers, few).value()), "0-1-2");
  EXPECT_EQ(Text(OfTraining(layers, {{{1, kForward}}}).value()), "0");
  EXPECT_FALSE(OfTraining(layers, {}));
  EXPECT_THAT(OfTraining(layers, {{{4, kForward}}}).error().message,
              HasSubstr("layer 4"));
  EXPECT_THAT(
      OfTraining(layers, {{{1, kForward}, {1, kForward}}}).error().message,
      HasSubstr("layer 1 has forward twice"));
}

Graph Read(const std::string& name) {
  return ReadGraphFile(test::DataPath("onnx/") + name, BatchSize(8)).value();
}

TEST(ConcurrencyTest, FindsTheBranchesOfGoogLeNet) {
  const PartialOrder order = ConvolutionOrder(Read("googlenet.onnx")).value();
  const Concurrency c = Decompose(order);
  EXPECT_TRUE(c.exact);
  EXPECT_EQ(ConcurrentPairs(c), Incomparable(order));
  // The stem, the first module and the second.
  EXPECT_THAT(Text(c), ::testing::StartsWith(
                           "0-1-2-(3 | 4-5 | 6-7 | 8)-(9 | 10-11 | 12-13 | "
                           "14)-"));
}

TEST(ConcurrencyTest, FindsTheShortcutsOfResNet) {
  const Concurrency c =
      Decompose(ConvolutionOrder(Read("resnet50.onnx")).value());
  EXPECT_TRUE(c.exact);
  EXPECT_THAT(Text(c), ::testing::StartsWith("0-(1-2-3 | 4)-5-6-7-8-9-10-("));
}

TEST(ConcurrencyTest, DecomposesAChainIntoAChain) {
  for (const auto& [file, size] : {std::pair{"alexnet.onnx", std::size_t{5}},
                                   std::pair{"vgg16.onnx", std::size_t{13}}}) {
    EXPECT_EQ(Text(Decompose(ConvolutionOrder(Read(file)).value())),
              Text(Chain(size)));
  }
}

TEST(ConcurrencyTest, RefusesAGraphWithoutConvolutions) {
  Graph graph;
  graph.name = "empty";
  EXPECT_THAT(ConvolutionOrder(graph).error().message,
              HasSubstr("empty has no convolution"));
}

}  // namespace
}  // namespace ucudnn
