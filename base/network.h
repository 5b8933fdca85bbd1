#ifndef UCUDNN_BASE_NETWORK_H_
#define UCUDNN_BASE_NETWORK_H_

// The convolutions of a network, and the kernels one training iteration runs
// for them.
//
// The file form is CSV with a header, one convolution a row in network order:
//   name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups
//   [,dilation_h,dilation_w][,D,T,pad_d,stride_d,dilation_d]
//   [,transposed,needs_input_gradient]
// or an ONNX model (base/onnx/onnx.h). The optional columns come in these
// groups. A row with an empty D has two spatial dimensions, and the other four
// columns of its group are empty too. The last two are 0 or 1.

#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"

namespace ucudnn {

// A transposed convolution is stored as the convolution it is the adjoint of:
// its forward pass runs that convolution's backward_data, its data gradient
// that one's forward; its filter gradient is the same backward_filter.
struct ConvLayer {
  std::string name;
  ConvGeometry geometry;
  bool transposed = false;
  // Whether anything before the layer is trained; false for the layers that
  // read the network's input.
  bool needs_input_gradient = true;

  friend bool operator==(const ConvLayer&, const ConvLayer&) = default;
};

struct Network {
  std::string name;
  std::vector<ConvLayer> layers;

  friend bool operator==(const Network&, const Network&) = default;
};

// One operation of one layer. `op` is the layer's; `problem.op` is what runs,
// and differs from it in a transposed layer.
struct Kernel {
  std::string layer;
  ConvOp op = ConvOp::kForward;
  ConvProblem problem;
};

// The kernels of one training iteration, layer by layer: forward,
// backward_data if needed, backward_filter.
std::vector<Kernel> KernelsOf(const Network& network, Precision precision,
                              Layout layout);

// Reads the CSV form. Without the flag columns, no layer is transposed and all
// but the first need an input gradient. `source` names the text in errors,
// which give the line, the column, the value and what is accepted.
// kInvalidArgument: a column is missing or duplicated, a field does not parse,
// a geometry is invalid (Validate), a name repeats, there is no row, a name or
// the list is too long (base/limits.h).
// O(rows log rows).
Result<Network> ParseNetworkCsv(std::string_view text, std::string_view name,
                                std::string_view source);

// What ParseNetworkCsv reads back as the same network; optional columns only if
// a value differs from the default.
std::string ToCsv(const Network& network);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_NETWORK_H_
