#ifndef UCUDNN_BASE_ONNX_ONNX_H_
#define UCUDNN_BASE_ONNX_ONNX_H_

// Networks from ONNX models, as training frameworks export them: with or
// without weights, with a symbolic batch.
//
// The model's inputs are its data and, where weights are not exported as
// initializers, its parameters. Data inputs are those with a symbolic first
// dimension; if there are none, those that are not initializers; if there are
// no initializers either, the first input. The first dimension of data is the
// batch: the requested batch replaces whatever the model has.
//
// Convolutions are the nodes Conv and ConvTranspose with one (read as two of
// height 1), two or three spatial dimensions, with groups, dilation, output
// padding and automatic padding. A Conv that pads one side more than the other
// (SAME_UPPER at stride 2) becomes a Pad node and an evenly padded convolution,
// as frameworks compute it.

#include <string_view>

#include "base/graph.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// Reads a model from its bytes as the graph named `name`. Nodes are named as in
// the model; one without a unique name gets "<op type>_<position>". `source`
// names the model in errors, which name the node or tensor concerned.
//
// kInvalidArgument: `batch` is not in [1, kMaxBatchSize]; the bytes are not an
// ONNX model; nodes form a cycle or two compute one tensor; an input's
// dimension besides the batch is symbolic; a shape cannot be inferred or is too
// large; a convolution's geometry is invalid (Validate); it exceeds a limit of
// base/limits.h; a node's attribute lies in another file.
// kUnimplemented: transposed convolutions whose padding differs between sides,
// other numbers of spatial dimensions, quantized and deformable convolutions,
// custom operators whose outputs have no shapes in the model, nodes with
// subgraphs, functions or sparse tensors; any model in a build without ONNX.
// O(size of the model, nodes sorted). Opens no file: initializers that the
// model keeps elsewhere are not read, as weights never are.
Result<Graph> ReadOnnx(std::string_view model, std::string_view name,
                       BatchSize batch, std::string_view source);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_ONNX_H_
