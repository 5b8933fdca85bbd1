#ifndef UCUDNN_BASE_ONNX_ONNX_H_
#define UCUDNN_BASE_ONNX_ONNX_H_

// Networks from ONNX models, as training frameworks export them: with or
// without weights, with a symbolic batch.
//
// The model's inputs are its data and, where weights are not exported as
// initializers, its parameters. Data inputs are those with a symbolic first
// dimension, which is the batch. If layers' filters are initializers or
// computed, all other inputs that nothing initializes are data as well, of a
// size of their own; otherwise they are parameters. Without a symbolic input,
// the batch is the first dimension of the first data input, and of those with
// the same one. The requested batch replaces whatever batch the model has.
//
// Convolutions are the nodes Conv and ConvTranspose with one (read as two of
// height 1), two or three spatial dimensions, with groups, dilation, output
// padding and automatic padding. A Conv that pads one side more than the other
// (SAME_UPPER at stride 2) becomes a Pad node and an evenly padded convolution,
// as frameworks compute it; a ConvTranspose, an evenly padded one and a Slice.

#include <string>
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
// kUnimplemented: convolutions of images of which the batch has no whole number
// each, with other numbers of spatial dimensions, quantized and deformable
// ones; operators that are not known here (rules.h) nor to the ONNX library and
// whose outputs have no shapes in the model; nodes with subgraphs, functions or
// sparse tensors; any model in a build without ONNX.
// O(size of the model, nodes sorted). Opens no file: initializers that the
// model keeps elsewhere are not read, as weights never are.
Result<Graph> ReadOnnx(std::string_view model, std::string_view name,
                       BatchSize batch, std::string_view source);

// The model's bytes without the data of tensors that are too large for shapes
// to depend on them, which is what makes models large; ReadOnnx reads the same
// graph from both. Errors of reading the bytes, as for ReadOnnx.
Result<std::string> WithoutWeights(std::string_view model,
                                   std::string_view source);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_ONNX_H_
