#ifndef UCUDNN_TESTS_SUPPORT_PAPER_NETWORKS_H_
#define UCUDNN_TESTS_SUPPORT_PAPER_NETWORKS_H_

// The networks that the papers on memory plans evaluate, as graphs.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/graph.h"

namespace ucudnn::test {

// Builds a network node by node. Tensors are indices.
class NetworkBuilder {
 public:
  using Value = std::size_t;

  NetworkBuilder(std::string name, std::int64_t batch) {
    graph_.name = std::move(name);
    graph_.batch = BatchSize(batch);
  }

  Graph Finish() { return std::move(graph_); }

  Value Input(std::int64_t channels, std::int64_t extent) {
    return Input("input", {graph_.batch.count(), channels, extent, extent});
  }
  Value Input(const std::string& name, std::vector<std::int64_t> shape) {
    return Tensor_(name, std::move(shape));
  }

  Value Conv(const std::string& name, Value x, std::int64_t filters,
             std::int64_t size, std::int64_t stride = 1, bool bias = true) {
    return Conv(name, x, filters, size, stride, (size - 1) / 2, bias);
  }
  Value Conv(const std::string& name, Value x, std::int64_t filters,
             std::int64_t size, std::int64_t stride, std::int64_t padding,
             bool bias) {
    const std::vector<std::int64_t> in = graph_.tensors[x].shape;
    NodeConvolution conv = Over(in);
    ConvGeometry& g = conv.geometry;
    g.channels = in[1];
    g.filters = filters;
    for (int axis = 3 - g.spatial_dims; axis < 3; ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      g.filter[i] = size;
      g.padding[i] = padding;
      g.stride[i] = stride;
    }
    std::vector<Value> inputs = {
        x, Parameter(name + ".weight", Shape({filters, in[1]}, g, g.filter))};
    if (bias) inputs.push_back(Parameter(name + ".bias", {filters}));
    const Value y = AddNode(name, "Conv", std::move(inputs),
                            Shape({in[0], filters}, g, g.output()));
    graph_.nodes.back().convolution = conv;
    return y;
  }

  // Doubles the image, or the volume.
  Value Doubled(const std::string& name, Value x, std::int64_t filters) {
    const std::vector<std::int64_t> in = graph_.tensors[x].shape;
    NodeConvolution conv = Over(in);
    conv.transposed = true;
    ConvGeometry& g = conv.geometry;
    g.channels = filters;
    g.filters = in[1];
    for (int axis = 3 - g.spatial_dims; axis < 3; ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      g.input[i] *= 2;
      g.filter[i] = g.stride[i] = 2;
    }
    const Value w =
        Parameter(name + ".weight", Shape({in[1], filters}, g, g.filter));
    const Value y = AddNode(name, "ConvTranspose", {x, w},
                            Shape({in[0], filters}, g, g.input));
    graph_.nodes.back().convolution = conv;
    return y;
  }

  Value Gemm(const std::string& name, Value x, std::int64_t outputs) {
    const std::vector<std::int64_t> in = graph_.tensors[x].shape;
    return AddNode(name, "Gemm",
                   {x, Parameter(name + ".weight", {outputs, in[1]}),
                    Parameter(name + ".bias", {outputs})},
                   {in[0], outputs});
  }

  Value BatchNorm(const std::string& name, Value x) {
    const std::int64_t c = graph_.tensors[x].shape[1];
    std::vector<Value> inputs = {x};
    for (const char* part : {".scale", ".bias", ".mean", ".variance"}) {
      inputs.push_back(Parameter(name + part, {c}));
    }
    return AddNode(name, "BatchNormalization", std::move(inputs),
                   graph_.tensors[x].shape);
  }

  // Operators without parameters that keep the shape of their first operand.
  Value Same(const std::string& name, const std::string& op_type,
             std::vector<Value> inputs) {
    std::vector<std::int64_t> shape = graph_.tensors[inputs[0]].shape;
    return AddNode(name, op_type, std::move(inputs), std::move(shape));
  }
  Value Relu(const std::string& name, Value x) {
    return Same(name + ".relu", "Relu", {x});
  }

  Value Pool(const std::string& name, Value x, std::int64_t size,
             std::int64_t stride, std::int64_t padding = 0,
             const std::string& op_type = "MaxPool") {
    std::vector<std::int64_t> shape = graph_.tensors[x].shape;
    for (std::size_t axis = 2; axis < shape.size(); ++axis) {
      shape[axis] = (shape[axis] + 2 * padding - size) / stride + 1;
    }
    const bool volumes = shape.size() == 5;
    const Value y = AddNode(name, op_type, {x}, std::move(shape));
    if (op_type != "GlobalAveragePool") {
      const Window window{size, stride, padding, padding};
      graph_.nodes.back().pooling = {volumes ? window : Window(), window,
                                     window};
    }
    return y;
  }

  Value Concat(const std::string& name, std::vector<Value> inputs) {
    std::vector<std::int64_t> shape = graph_.tensors[inputs[0]].shape;
    shape[1] = 0;
    for (const Value input : inputs) shape[1] += graph_.tensors[input].shape[1];
    return AddNode(name, "Concat", std::move(inputs), std::move(shape));
  }

  Value Flatten(Value x) {
    const std::vector<std::int64_t> in = graph_.tensors[x].shape;
    std::int64_t features = 1;
    for (std::size_t i = 1; i < in.size(); ++i) features *= in[i];
    return AddNode("flatten", "Flatten", {x}, {in[0], features});
  }

  // Halves of the channels.
  std::pair<Value, Value> Split(const std::string& name, Value x) {
    std::vector<std::int64_t> shape = graph_.tensors[x].shape;
    shape[1] /= 2;
    const Value first = AddNode(name, "Split", {x}, shape);
    const Value second = Tensor_(name + ".2", shape);
    graph_.nodes.back().outputs.push_back(second);
    graph_.nodes.back().numbers["axis"] = 1;
    return {first, second};
  }

  Value AddNode(const std::string& name, const std::string& op_type,
                std::vector<Value> inputs, std::vector<std::int64_t> shape) {
    const Value y = Tensor_(name, std::move(shape));
    Node node;
    node.name = name;
    node.op_type = op_type;
    node.inputs = std::move(inputs);
    node.outputs = {y};
    graph_.nodes.push_back(std::move(node));
    return y;
  }

 private:
  // A convolution over tensors of this shape, N and C before two or three axes.
  static NodeConvolution Over(const std::vector<std::int64_t>& shape) {
    NodeConvolution conv;
    conv.geometry.spatial_dims = static_cast<int>(shape.size()) - 2;
    std::copy(shape.begin() + 2, shape.end(),
              conv.geometry.input.end() - conv.geometry.spatial_dims);
    return conv;
  }
  // `shape` followed by the axes that count.
  static std::vector<std::int64_t> Shape(std::vector<std::int64_t> shape,
                                         const ConvGeometry& geometry,
                                         const Spatial& axes) {
    shape.insert(shape.end(), axes.end() - geometry.spatial_dims, axes.end());
    return shape;
  }

  Value Tensor_(const std::string& name, std::vector<std::int64_t> shape) {
    ucudnn::Tensor tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    graph_.tensors.push_back(std::move(tensor));
    return graph_.tensors.size() - 1;
  }
  Value Parameter(const std::string& name, std::vector<std::int64_t> shape) {
    const Value value = Tensor_(name, std::move(shape));
    graph_.tensors[value].parameter = graph_.tensors[value].trained = true;
    return value;
  }

  Graph graph_;
};

// The AlexNet of the report on vDNNExt: images of 227, no groups, no local
// response normalisation, no dropout.
inline Graph PaperAlexNet(std::int64_t batch) {
  NetworkBuilder n("alexnet", batch);
  auto x = n.Input(3, 227);
  x = n.Relu("conv1", n.Conv("conv1", x, 96, 11, 4, 0, true));
  x = n.Pool("pool1", x, 3, 2);
  x = n.Relu("conv2", n.Conv("conv2", x, 256, 5));
  x = n.Pool("pool2", x, 3, 2);
  x = n.Relu("conv3", n.Conv("conv3", x, 384, 3));
  x = n.Relu("conv4", n.Conv("conv4", x, 384, 3));
  x = n.Relu("conv5", n.Conv("conv5", x, 256, 3));
  x = n.Flatten(n.Pool("pool5", x, 3, 2));
  x = n.Relu("fc6", n.Gemm("fc6", x, 4096));
  x = n.Relu("fc7", n.Gemm("fc7", x, 4096));
  n.Gemm("fc8", x, 1000);
  return n.Finish();
}

// VGG with these numbers of convolutions in its stages.
inline Graph PaperVgg(const std::string& name, std::int64_t batch,
                      const std::array<int, 5>& stages) {
  NetworkBuilder n(name, batch);
  auto x = n.Input(3, 224);
  std::int64_t channels = 64;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 1; i <= stages[stage]; ++i) {
      const std::string conv =
          "conv" + std::to_string(stage + 1) + "_" + std::to_string(i);
      x = n.Relu(conv, n.Conv(conv, x, channels, 3));
    }
    x = n.Pool("pool" + std::to_string(stage + 1), x, 2, 2);
    if (channels < 512) channels *= 2;
  }
  x = n.Flatten(x);
  x = n.Relu("fc6", n.Gemm("fc6", x, 4096));
  x = n.Relu("fc7", n.Gemm("fc7", x, 4096));
  n.Gemm("fc8", x, 1000);
  return n.Finish();
}
inline Graph PaperVgg16(std::int64_t batch) {
  return PaperVgg("vgg16", batch, {2, 2, 3, 3, 3});
}
inline Graph PaperVgg19(std::int64_t batch) {
  return PaperVgg("vgg19", batch, {2, 2, 4, 4, 4});
}
inline Graph PaperVgg101(std::int64_t batch) {
  return PaperVgg("vgg101", batch, {12, 12, 24, 24, 26});
}

// ResNet of basic blocks (two 3x3) or of bottlenecks (1x1, 3x3, 1x1), each
// stage but the first with its stride in the first convolution.
inline Graph PaperResNet(const std::string& name, std::int64_t batch,
                         const std::array<int, 4>& stages, bool bottleneck) {
  NetworkBuilder n(name, batch);
  const auto unit = [&n](const std::string& conv, auto in, std::int64_t filters,
                         std::int64_t size, std::int64_t stride) {
    return n.BatchNorm(conv + ".bn",
                       n.Conv(conv, in, filters, size, stride, false));
  };
  auto x = n.Relu("conv1", unit("conv1", n.Input(3, 224), 64, 7, 2));
  x = n.Pool("pool1", x, 3, 2, 1);
  std::int64_t width = 64;
  std::int64_t channels = 64;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i) {
      const std::string block =
          "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      const std::int64_t out = bottleneck ? 4 * width : width;
      auto y = x;
      if (bottleneck) {
        y = n.Relu(block + ".conv1",
                   unit(block + ".conv1", y, width, 1, stride));
        y = n.Relu(block + ".conv2", unit(block + ".conv2", y, width, 3, 1));
        y = unit(block + ".conv3", y, out, 1, 1);
      } else {
        y = n.Relu(block + ".conv1",
                   unit(block + ".conv1", y, width, 3, stride));
        y = unit(block + ".conv2", y, out, 3, 1);
      }
      if (stride != 1 || channels != out) {
        x = unit(block + ".downsample", x, out, 1, stride);
      }
      x = n.Relu(block, n.Same(block + ".add", "Add", {y, x}));
      channels = out;
    }
    width *= 2;
  }
  x = n.Flatten(n.Pool("pool", x, 7, 7, 0, "GlobalAveragePool"));
  n.Gemm("fc", x, 1000);
  return n.Finish();
}
inline Graph PaperResNet34(std::int64_t batch) {
  return PaperResNet("resnet34", batch, {3, 4, 6, 3}, false);
}
inline Graph PaperResNet50(std::int64_t batch) {
  return PaperResNet("resnet50", batch, {3, 4, 6, 3}, true);
}
inline Graph PaperResNet152(std::int64_t batch) {
  return PaperResNet("resnet152", batch, {3, 8, 36, 3}, true);
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_PAPER_NETWORKS_H_
