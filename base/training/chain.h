#ifndef UCUDNN_BASE_TRAINING_CHAIN_H_
#define UCUDNN_BASE_TRAINING_CHAIN_H_

#include "base/graph.h"
#include "base/network.h"
#include "base/result.h"

namespace ucudnn {

// The chain of a network's convolutions as a graph: a Relu after each, and a
// MaxPool before the next one if its input is smaller. kInvalidArgument, naming
// the row, if a layer's input is not the previous layer's output: networks with
// branches need an ONNX model.
Result<Graph> ChainOf(const Network& network, BatchSize batch);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_CHAIN_H_
