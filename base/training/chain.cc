#include "base/training/chain.h"

#include <fmt/ranges.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ucudnn {
namespace {

using Shape = std::vector<std::int64_t>;

// What the next layer reads: channels of an extent, of so many images for each
// of the batch.
struct Image {
  std::int64_t images = 1;
  std::int64_t channels = 0;
  Spatial extent{};
};

Image InputOf(const ConvLayer& layer) {
  const ConvGeometry& g = layer.geometry;
  return layer.transposed ? Image{g.images, g.filters, g.output()}
                          : Image{g.images, g.channels, g.input};
}

Image OutputOf(const ConvLayer& layer) {
  const ConvGeometry& g = layer.geometry;
  return layer.transposed ? Image{g.images, g.channels, g.input}
                          : Image{g.images, g.filters, g.output()};
}

std::string Described(const Image& image) {
  return fmt::format(
      "{}{} channels of {}",
      image.images == 1 ? "" : fmt::format("{} images of ", image.images),
      image.channels, fmt::join(image.extent, "x"));
}

enum class Change { kNone, kSmaller, kOther };

// How `next` differs from `last`.
Change Compare(const Image& last, const Image& next) {
  bool smaller = false;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (next.extent[axis] > last.extent[axis]) return Change::kOther;
    smaller = smaller || next.extent[axis] < last.extent[axis];
  }
  if (next.channels != last.channels || next.images != last.images) {
    return Change::kOther;
  }
  return smaller ? Change::kSmaller : Change::kNone;
}

// Windows that make `to` out of `from`, reading all of it without padding.
std::array<Window, 3> PoolingBetween(const Spatial& from, const Spatial& to) {
  std::array<Window, 3> windows;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    windows[axis].stride = from[axis] / to[axis];
    windows[axis].extent = from[axis] - (to[axis] - 1) * windows[axis].stride;
  }
  return windows;
}

class ChainBuilder {
 public:
  ChainBuilder(const Network& network, BatchSize batch) {
    graph_.name = network.name;
    graph_.batch = batch;
  }

  Status Add(std::size_t row, const ConvLayer& layer) {
    UCUDNN_RETURN_IF_ERROR(Connect(row, layer));
    const ConvGeometry& g = layer.geometry;
    Shape filter = {g.filters, g.channels / g.groups};
    filter.insert(filter.end(), g.filter.begin() + (3 - g.spatial_dims),
                  g.filter.end());
    const std::size_t weight = AddTensor(layer.name + ".weight", filter);
    graph_.tensors[weight].parameter = graph_.tensors[weight].trained = true;
    const Shape output = ShapeOf(layer, OutputOf(layer));
    const std::size_t y = AddTensor(layer.name, output);
    AddNode(layer.name, layer.transposed ? "ConvTranspose" : "Conv",
            {*last_, weight}, y)
        .convolution = {g, layer.transposed};
    last_ = AddTensor(layer.name + ".relu", output);
    AddNode(layer.name + ".relu", "Relu", {y}, *last_);
    image_ = OutputOf(layer);
    return {};
  }

  Graph Finish() && { return std::move(graph_); }

 private:
  // Makes last_ the tensor that the layer reads.
  Status Connect(std::size_t row, const ConvLayer& layer) {
    const Image input = InputOf(layer);
    if (!last_) {
      last_ = AddTensor("input", ShapeOf(layer, input));
      return {};
    }
    switch (Compare(image_, input)) {
      case Change::kNone:
        return {};
      case Change::kSmaller: {
        const std::size_t pooled =
            AddTensor(layer.name + ".pooled", ShapeOf(layer, input));
        AddNode(layer.name + ".pool", "MaxPool", {*last_}, pooled).pooling =
            PoolingBetween(image_.extent, input.extent);
        last_ = pooled;
        return {};
      }
      case Change::kOther:
        break;
    }
    return Fail(
        Code::kInvalidArgument,
        "row {} ('{}') reads {}, but the row before it gives {}; as CSV a "
        "chain "
        "of convolutions is accepted, and networks with branches as ONNX "
        "models",
        row, Excerpt(layer.name), Described(input), Described(image_));
  }

  Shape ShapeOf(const ConvLayer& layer, const Image& image) const {
    Shape shape = {graph_.batch.count() * image.images, image.channels};
    shape.insert(shape.end(),
                 image.extent.begin() + (3 - layer.geometry.spatial_dims),
                 image.extent.end());
    return shape;
  }

  std::size_t AddTensor(std::string name, Shape shape) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    graph_.tensors.push_back(std::move(tensor));
    return graph_.tensors.size() - 1;
  }

  Node& AddNode(std::string name, std::string op_type,
                std::vector<std::size_t> inputs, std::size_t output) {
    Node node;
    node.name = std::move(name);
    node.op_type = std::move(op_type);
    node.inputs = std::move(inputs);
    node.outputs = {output};
    return graph_.nodes.emplace_back(std::move(node));
  }

  Graph graph_;
  std::optional<std::size_t> last_;  // what the previous layer computes
  Image image_;                      // its channels and extent
};

}  // namespace

Result<Graph> ChainOf(const Network& network, BatchSize batch) {
  ChainBuilder chain(network, batch);
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(chain.Add(i + 1, network.layers[i]));
  }
  return std::move(chain).Finish();
}

}  // namespace ucudnn
