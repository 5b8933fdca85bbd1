#include "client/examples/train/net.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace ucudnn::train {
namespace {

using Windows = std::array<Window, 2>;  // of height and width

Windows Square(const Window& window) { return {window, window}; }

ImageExtent Pooled(const ImageExtent& in, const Windows& windows) {
  return {in.channels, windows[0].OutputOf(in.height),
          windows[1].OutputOf(in.width)};
}

// Adds layers one by one; each function returns the index of the tensor it
// computes. After the first error nothing more is added.
class Builder {
 public:
  Builder(std::string name, const ImageExtent& images) {
    net_.name = std::move(name);
    net_.tensors.push_back(images);
  }

  const ImageExtent& extent(std::size_t tensor) const {
    return net_.tensors[tensor];
  }

  std::size_t Convolve(std::size_t input, const std::string& name,
                       const ConvGeometry& geometry, bool relu,
                       double gain = 1) {
    const Status valid = Validate(geometry);
    if (!valid) return Reject(input, name, valid.error().message);
    Layer layer;
    layer.kind = Layer::Kind::kConvolution;
    layer.name = name;
    layer.input = input;
    layer.relu = relu;
    layer.geometry = geometry;
    layer.gain = gain;
    const Spatial out = geometry.output();
    return Add(std::move(layer), {geometry.filters, out[1], out[2]});
  }

  // Adds a convolution with a square filter.
  std::size_t Convolve(std::size_t input, const std::string& name,
                       std::int64_t filters, std::int64_t size,
                       std::int64_t stride, bool relu, double gain = 1) {
    ConvGeometry geometry = OnAllOf(input, filters);
    geometry.filter = {1, size, size};
    geometry.stride = {1, stride, stride};
    geometry.padding = {0, size / 2, size / 2};
    return Convolve(input, name, geometry, relu, gain);
  }

  std::size_t Connect(std::size_t input, const std::string& name,
                      std::int64_t filters, bool relu) {
    return Convolve(input, name, OnAllOf(input, filters), relu);
  }

  std::size_t Pool(Pooling::Kind kind, std::size_t input,
                   const std::string& name, const Windows& windows) {
    const ImageExtent& in = extent(input);
    const ImageExtent out = Pooled(in, windows);
    if (out.height < 1 || out.width < 1) {
      return Reject(input, name,
                    fmt::format("a window of {}x{} on {}", windows[0].extent,
                                windows[1].extent, ToString(in)));
    }
    Layer layer;
    layer.kind = Layer::Kind::kPool;
    layer.name = name;
    layer.input = input;
    layer.pooling = {kind, in, out, windows};
    return Add(std::move(layer), out);
  }

  std::size_t Sum(std::size_t input, std::size_t other,
                  const std::string& name) {
    Layer layer;
    layer.kind = Layer::Kind::kAdd;
    layer.name = name;
    layer.input = input;
    layer.other = other;
    layer.relu = true;
    return Add(std::move(layer), extent(input));
  }

  std::size_t Reject(std::size_t input, const std::string& name,
                     const std::string& why) {
    if (!error_) {
      error_ = Error{Code::kInvalidArgument,
                     fmt::format("{} on images of {}: {}: {}", net_.name,
                                 ToString(net_.tensors.front()), name, why)};
    }
    return input;
  }

  Result<Net> Take() && {
    if (error_) return tl::unexpected<Error>(*error_);
    return std::move(net_);
  }

 private:
  // The geometry of a fully connected layer.
  ConvGeometry OnAllOf(std::size_t input, std::int64_t filters) const {
    const ImageExtent& in = extent(input);
    ConvGeometry geometry;
    geometry.channels = in.channels;
    geometry.filters = filters;
    geometry.input = {1, in.height, in.width};
    geometry.filter = geometry.input;
    return geometry;
  }

  std::size_t Add(Layer layer, const ImageExtent& out) {
    if (error_) return layer.input;
    net_.layers.push_back(std::move(layer));
    net_.tensors.push_back(out);
    return net_.layers.size();
  }

  Net net_;
  std::optional<Error> error_;
};

constexpr Window kHalving = {2, 2};
constexpr Window kOverlapping = {3, 2};
constexpr Window kPadded = {3, 2, 1, 1};

// The pool that reduces `in` to `out`.
std::optional<Windows> PoolBetween(const ImageExtent& in,
                                   const ImageExtent& out) {
  for (const Window& window : {kOverlapping, kHalving, kPadded}) {
    if (Pooled(in, Square(window)) == out) return Square(window);
  }
  return std::nullopt;
}

}  // namespace

std::string ToString(const ImageExtent& extent) {
  return fmt::format("{}x{}x{}", extent.channels, extent.height, extent.width);
}

Result<Net> LeNet(const ImageExtent& images, std::int64_t classes) {
  Builder b("lenet", images);
  const Windows halves = Square(kHalving);
  std::size_t x = b.Convolve(0, "conv1", 16, 5, 1, true);
  x = b.Pool(Pooling::Kind::kMax, x, "pool1", halves);
  x = b.Convolve(x, "conv2", 32, 5, 1, true);
  x = b.Pool(Pooling::Kind::kMax, x, "pool2", halves);
  x = b.Connect(x, "fc1", 128, true);
  b.Connect(x, "fc2", classes, false);
  return std::move(b).Take();
}

Result<Net> ResNet18(const ImageExtent& images, std::int64_t classes) {
  constexpr int kBlocks = 8;
  // Keeps sums over all blocks at the scale of one.
  const double residual = 1 / std::sqrt(double{kBlocks});
  Builder b("resnet18", images);
  std::size_t x = b.Convolve(0, "conv1", 64, 7, 2, true);
  x = b.Pool(Pooling::Kind::kMax, x, "pool1", Square(kPadded));
  for (int stage = 2; stage <= 5; ++stage) {
    const std::int64_t filters = std::int64_t{16} << stage;
    for (int block = 1; block <= kBlocks / 4; ++block) {
      const std::string name = fmt::format("res{}.{}", stage, block);
      const bool first = stage > 2 && block == 1;
      std::size_t y =
          b.Convolve(x, name + ".conv1", filters, 3, first ? 2 : 1, true);
      y = b.Convolve(y, name + ".conv2", filters, 3, 1, false, residual);
      if (first) {
        x = b.Convolve(x, name + ".skipConv", filters, 1, 2, false);
      }
      x = b.Sum(y, x, name + ".add");
    }
  }
  const ImageExtent& last = b.extent(x);
  x = b.Pool(Pooling::Kind::kAverage, x, "pool5",
             {Window{last.height}, Window{last.width}});
  b.Connect(x, "fc", classes, false);
  return std::move(b).Take();
}

Result<Net> Chain(const Network& network, std::int64_t classes) {
  if (network.layers.empty()) {
    return Fail(Code::kInvalidArgument, "{} has no convolution", network.name);
  }
  const auto input = [](const ConvLayer& layer) {
    const ConvGeometry& g = layer.geometry;
    return ImageExtent{g.channels, g.input[1], g.input[2]};
  };
  Builder b(network.name, input(network.layers.front()));
  std::size_t x = 0;
  for (const ConvLayer& layer : network.layers) {
    if (layer.transposed || layer.geometry.spatial_dims != 2) {
      return Fail(Code::kInvalidArgument,
                  "{}: {}: only plain convolutions of two dimensions are "
                  "trained",
                  network.name, layer.name);
    }
    const ImageExtent in = input(layer);
    const ImageExtent before = b.extent(x);
    if (before != in) {
      const std::optional<Windows> windows = PoolBetween(before, in);
      if (!windows) {
        return Fail(Code::kInvalidArgument,
                    "{}: {} takes {}, but {} come before it; the layers must "
                    "be a chain, with a pool of 2x2 or 3x3 by 2 at most "
                    "between two of them",
                    network.name, layer.name, ToString(in), ToString(before));
      }
      x = b.Pool(Pooling::Kind::kMax, x, layer.name + ".pool", *windows);
    }
    x = b.Convolve(x, layer.name, layer.geometry, true);
  }
  b.Connect(x, "classes", classes, false);
  return std::move(b).Take();
}

Network ConvolutionsOf(const Net& net) {
  Network network;
  network.name = net.name;
  for (const Layer& layer : net.layers) {
    if (layer.kind != Layer::Kind::kConvolution) continue;
    ConvLayer convolution;
    convolution.name = layer.name;
    convolution.geometry = layer.geometry;
    convolution.needs_input_gradient = layer.input != 0;
    network.layers.push_back(std::move(convolution));
  }
  return network;
}

}  // namespace ucudnn::train
