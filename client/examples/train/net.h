#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_NET_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_NET_H_

// The example's networks: convolutions and the few layers around them. A fully
// connected layer is a convolution whose filter is as large as its input, so
// that all layers are planned in the same way. There are no biases and no batch
// normalisation, whose statistics would depend on how ranks share the
// mini-batch.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/network.h"
#include "base/result.h"
#include "device/operators/operators.h"

namespace ucudnn::train {

// "3x32x32".
std::string ToString(const ImageExtent& extent);

// Tensor 0 holds the images; layer i computes tensor i + 1.
struct Layer {
  enum class Kind { kConvolution, kPool, kAdd };
  Kind kind = Kind::kConvolution;
  std::string name;
  std::size_t input = 0;  // index of a tensor
  std::size_t other = 0;  // kAdd: index of the tensor to add
  bool relu = false;      // applies ReLU to the result
  ConvGeometry geometry;  // kConvolution
  Pooling pooling;        // kPool
  double gain = 1;        // factor of the initial filter, besides He's
};

struct Net {
  std::string name;
  // Of one image. One more than layers; the last has the classes.
  std::vector<ImageExtent> tensors;
  std::vector<Layer> layers;

  std::int64_t classes() const { return tensors.back().channels; }
};

// Two convolutions with pools and two fully connected layers. kInvalidArgument
// if the images are smaller than 12x12.
Result<Net> LeNet(const ImageExtent& images, std::int64_t classes);

// He et al., 2015, without batch normalisation; instead, the second convolution
// of each block starts with small filters. Layers are named as in
// tests/data/networks/resnet18.csv. Takes images of at least about 32x32;
// kInvalidArgument for smaller ones.
Result<Net> ResNet18(const ImageExtent& images, std::int64_t classes);

// The network's convolutions one after the other, each with ReLU, followed by a
// fully connected layer. If a layer's input is smaller than the previous
// layer's output, a maximum pool comes between them: the first that fits of 3x3
// stride 2, 2x2 stride 2, and 3x3 stride 2 with padding 1. kInvalidArgument,
// naming the layer and the sizes, if none fits, if channels differ, or for
// transposed or three-dimensional layers.
Result<Net> Chain(const Network& network, std::int64_t classes);

// The convolutions, for planning.
Network ConvolutionsOf(const Net& net);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_NET_H_
