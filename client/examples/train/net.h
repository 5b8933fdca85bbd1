#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_NET_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_NET_H_

// The networks that the example trains: convolutions with the few layers that
// they need around them. A fully connected layer is a convolution whose filter
// is as large as its input, so that one way of planning serves all that is
// trained. There are no biases, and no batch normalisation: its statistics
// would depend on how the mini-batch is shared among ranks.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/network.h"
#include "base/result.h"

namespace ucudnn::train {

// One image, or what a layer makes of it; channels, rows, columns.
struct Extent {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;

  std::int64_t elements() const { return channels * height * width; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// "3x32x32".
std::string ToString(const Extent& extent);

struct Window {
  std::int64_t height = 2;
  std::int64_t width = 2;
  std::int64_t stride_height = 2;
  std::int64_t stride_width = 2;
  std::int64_t padding = 0;
};

// Tensor 0 is the images; layer i computes tensor i + 1.
struct Layer {
  enum class Kind { kConvolution, kMaxPool, kAveragePool, kAdd };
  Kind kind = Kind::kConvolution;
  std::string name;
  std::size_t input = 0;  // a tensor
  std::size_t other = 0;  // kAdd: what is added
  bool relu = false;      // negative elements of the result become 0
  ConvGeometry geometry;  // kConvolution
  Window window;          // of a pool
  double gain = 1;        // of the initial filter, beside He's
};

struct Net {
  std::string name;
  std::vector<Extent> tensors;  // one more than layers; the last: the classes
  std::vector<Layer> layers;

  std::int64_t classes() const { return tensors.back().channels; }
};

// Two convolutions with pools, two fully connected layers. kInvalidArgument if
// the images are smaller than 12x12.
Result<Net> LeNet(const Extent& images, std::int64_t classes);

// He et al., 2015, without batch normalisation; the second convolution of each
// block starts small instead. Layers are named as in
// tests/data/networks/resnet18.csv. Any image of at least 32x32 or so will do;
// kInvalidArgument for others.
Result<Net> ResNet18(const Extent& images, std::int64_t classes);

// Convolutions one after the other, each with ReLU, and a fully connected
// layer. Where a layer's input is smaller than what the one before gives, a
// maximum pool comes between them: 3x3 by 2, 2x2 by 2, or 3x3 by 2 with a
// padding of 1, whichever fits first. kInvalidArgument, naming the layer and
// the sizes, if none does, if channels differ, or for layers that are
// transposed or of three dimensions.
Result<Net> Chain(const Network& network, std::int64_t classes);

// The convolutions, for plans of them.
Network ConvolutionsOf(const Net& net);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_NET_H_
