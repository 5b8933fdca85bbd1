#ifndef UCUDNN_TESTS_SUPPORT_SMALL_NETWORKS_H_
#define UCUDNN_TESTS_SUPPORT_SMALL_NETWORKS_H_

// Networks small enough for many plans in one test, with the features that make
// planning hard: branches, joins, normalisations, pooling.

#include "tests/support/paper_networks.h"

namespace ucudnn::test {

inline Graph SmallChain(std::int64_t batch) {
  NetworkBuilder n("chain", batch);
  auto x = n.Input(3, 32);
  x = n.Relu("conv1", n.Conv("conv1", x, 16, 3));
  x = n.Relu("conv2", n.Conv("conv2", x, 16, 3));
  x = n.Pool("pool2", x, 2, 2);
  x = n.Relu("conv3", n.Conv("conv3", x, 32, 3));
  x = n.Pool("pool3", x, 2, 2);
  x = n.Relu("fc4", n.Gemm("fc4", n.Flatten(x), 64));
  n.Gemm("fc5", x, 10);
  return n.Finish();
}

// Two residual blocks, one with a projection.
inline Graph SmallResidual(std::int64_t batch) {
  NetworkBuilder n("residual", batch);
  const auto unit = [&n](const std::string& name, auto x, std::int64_t filters,
                         std::int64_t size, std::int64_t stride) {
    return n.BatchNorm(name + ".bn",
                       n.Conv(name, x, filters, size, stride, false));
  };
  auto x = n.Relu("conv1", unit("conv1", n.Input(3, 32), 16, 3, 1));
  auto y = n.Relu("a1", unit("a1", x, 16, 3, 1));
  x = n.Relu("a", n.Same("a.add", "Add", {unit("a2", y, 16, 3, 1), x}));
  y = n.Relu("b1", unit("b1", x, 32, 3, 2));
  x = n.Relu("b", n.Same("b.add", "Add",
                         {unit("b2", y, 32, 3, 1), unit("b3", x, 32, 1, 2)}));
  n.Gemm("fc", n.Flatten(n.Pool("pool", x, 16, 16, 0, "AveragePool")), 10);
  return n.Finish();
}

// Branches that are concatenated, dropout, and a tensor that two concatenations
// and a convolution read.
inline Graph SmallInception(std::int64_t batch) {
  NetworkBuilder n("inception", batch);
  auto x = n.Relu("stem", n.Conv("stem", n.Input(3, 16), 8, 3));
  const auto a = n.Relu("a", n.Conv("a", x, 8, 1));
  const auto b =
      n.Relu("b2", n.Conv("b2", n.Relu("b1", n.Conv("b1", x, 4, 1)), 8, 3));
  const auto c =
      n.Same("c", "LRN", {n.Conv("c1", n.Pool("p", x, 3, 1, 1), 8, 1)});
  const auto d = n.Concat("d", {a, b, c});
  const auto e = n.Concat("e", {x, d, n.Relu("f", n.Conv("f", d, 8, 3))});
  n.Gemm("fc", n.Flatten(n.Same("drop", "Dropout", {n.Pool("q", e, 2, 2)})),
         10);
  return n.Finish();
}

// A squeeze-and-excitation, SiLU and hard activations, halves of the channels
// that go separate ways, and a grid that is added to all images.
inline Graph SmallExcitation(std::int64_t batch) {
  NetworkBuilder n("excitation", batch);
  const auto grid = n.Input("grid", {1, 3, 16, 16});
  auto x = n.Same("grid.add", "Add", {n.Input(3, 16), grid});
  x = n.Same("stem.silu", "Swish",
             {n.BatchNorm("bn", n.Conv("stem", x, 8, 3))});
  auto s = n.Pool("squeeze", x, 16, 16, 0, "GlobalAveragePool");
  s = n.Same("excite", "HardSigmoid",
             {n.Conv("up", n.Relu("down", n.Conv("down", s, 2, 1)), 8, 1)});
  x = n.Same("scale", "Mul", {x, s});
  auto [a, b] = n.Split("split", x);
  b = n.Same("b.act", "HardSwish", {n.Conv("b", b, 4, 3)});
  x = n.Same("shuffle", "Transpose", {n.Concat("cat", {a, b, n.Relu("c", a)})});
  n.Gemm("fc", n.Flatten(n.Pool("pool", x, 2, 2)), 10);
  return n.Finish();
}

// Squeeze-and-excitation, whose factor's gradient is a sum, halves of the
// channels that go separate ways, and a local response.
inline Graph SmallGates(std::int64_t batch) {
  NetworkBuilder n("gates", batch);
  auto x = n.Same("stem.silu", "Swish",
                  {n.BatchNorm("bn", n.Conv("stem", n.Input(3, 16), 8, 3))});
  auto s = n.Pool("squeeze", x, 16, 16, 0, "GlobalAveragePool");
  s = n.Same("excite", "HardSigmoid",
             {n.Conv("up", n.Relu("down", n.Conv("down", s, 2, 1)), 8, 1)});
  x = n.Same("lrn", "LRN", {n.Same("scale", "Mul", {x, s})});
  auto [a, b] = n.Split("split", x);
  b = n.Same("b.act", "HardSwish", {n.Conv("b", b, 4, 3)});
  const auto gate = n.Same("gate.act", "Sigmoid", {n.Conv("gate", a, 4, 1)});
  x = n.Concat("cat", {n.Same("gated", "Mul", {gate, b}), a, n.Relu("c", a)});
  x = n.Pool("pool", x, 2, 2);
  x = n.AddNode("larger", "Resize", {x}, {batch, 12, 12, 12});
  n.Gemm("fc", n.Flatten(x), 10);
  Graph graph = n.Finish();
  for (Node& node : graph.nodes) {
    if (node.name == "lrn") {
      node.numbers = {{"size", 5}, {"alpha", 0.5}, {"beta", 0.75}, {"bias", 2}};
    } else if (node.name == "larger") {
      node.words = {{"mode", "linear"}};
    }
  }
  return graph;
}

// A U-Net over volumes of 8 x 8 x 8 that tells 3 classes of pixels apart, with
// both ways up: a transposed convolution, and a linear resizing.
inline Graph SmallVolumes(std::int64_t batch) {
  NetworkBuilder n("volumes", batch);
  auto x = n.Input("input", {batch, 2, 8, 8, 8});
  x = n.Relu("a", n.BatchNorm("a.bn", n.Conv("a", x, 6, 3, 1, false)));
  auto y = n.Relu("b", n.Conv("b", n.Pool("down", x, 2, 2), 8, 3));
  auto z = n.Pool("deep", y, 3, 2, 1, "AveragePool");
  z = n.Relu("c", n.Conv("c", z, 8, 3));
  z = n.AddNode("larger", "Resize", {z}, {batch, 8, 4, 4, 4});
  y = n.Relu("d", n.Conv("d", n.Concat("b.c", {y, z}), 6, 1));
  n.Conv("classes", n.Concat("a.d", {x, n.Doubled("up", y, 6)}), 3, 1);
  Graph graph = n.Finish();
  for (Node& node : graph.nodes) {
    if (node.name == "larger") node.words = {{"mode", "linear"}};
  }
  return graph;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_SMALL_NETWORKS_H_
