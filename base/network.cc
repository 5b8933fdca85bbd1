#include "base/network.h"

namespace ucudnn {
namespace {

// What runs when a transposed layer performs `op`.
ConvOp Adjoint(ConvOp op) {
  switch (op) {
    case ConvOp::kForward:
      return ConvOp::kBackwardData;
    case ConvOp::kBackwardData:
      return ConvOp::kForward;
    case ConvOp::kBackwardFilter:
      return ConvOp::kBackwardFilter;
  }
  return op;
}

}  // namespace

std::vector<Kernel> KernelsOf(const Network& network, Precision precision,
                              Layout layout) {
  std::vector<Kernel> kernels;
  for (const ConvLayer& layer : network.layers) {
    for (const ConvOp op : kConvOps) {
      if (op == ConvOp::kBackwardData && !layer.needs_input_gradient) continue;
      kernels.push_back({layer.name, op,
                         ConvProblem{layer.transposed ? Adjoint(op) : op,
                                     layer.geometry, precision, layout}});
    }
  }
  return kernels;
}

}  // namespace ucudnn
