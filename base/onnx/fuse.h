#ifndef UCUDNN_BASE_ONNX_FUSE_H_
#define UCUDNN_BASE_ONNX_FUSE_H_

// Operators that exporters take apart and frameworks run as one, which need
// less memory than the parts would; internal to base/onnx.
//
//   Mul(x, Sigmoid(x))                                  Swish (SiLU)
//   d = Sub(x, ReduceMean(x)), over all axes but the
//   second; Add(Mul(Div(d, Sqrt(Add(ReduceMean(Mul(     BatchNormalization
//   d, d)), e))), w), b)

#include <onnx/onnx_pb.h>

namespace ucudnn {

// Puts the whole operator where the last of its parts was, under that one's
// name, if nothing else reads what the other parts compute. `graph`'s nodes are
// in topological order, and stay so. O(nodes).
void FuseOperators(onnx::GraphProto* graph);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_FUSE_H_
