#ifndef UCUDNN_BASE_ONNX_SHAPES_H_
#define UCUDNN_BASE_ONNX_SHAPES_H_

// Shape inference by the ONNX library; a part of base/onnx.

#include "base/onnx_model.h"
#include "base/result.h"

namespace ucudnn {

// Infers the type and shape of what the model's nodes compute, as far as the
// library can. Shapes that depend on computed values (sizes given to Resize)
// are found by inferring again with the values that inference itself gave.
// kInvalidArgument, naming the node, if the model is not valid.
Status InferOnnxShapes(OnnxModel* model);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_SHAPES_H_
