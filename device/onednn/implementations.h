#ifndef UCUDNN_DEVICE_ONEDNN_IMPLEMENTATIONS_H_
#define UCUDNN_DEVICE_ONEDNN_IMPLEMENTATIONS_H_

// The implementations that oneDNN has for a convolution, each with the tensor
// formats it works on.
//
// oneDNN asks which formats the tensors have, or may choose them ("any"). We
// ask twice for the direct and the Winograd algorithms: once with every format
// free, once with the images in the problem's layout and only the filter free.
// The first gives the blocked formats that oneDNN prefers, the second, for
// NHWC, the kernels that work on it directly. The reference implementation,
// which takes every format, is asked for with all tensors as they are.
//
// The name of an algorithm is oneDNN's name of the implementation
// ("jit:avx512_core", "jit_wino_4x3:avx512_core", "x64:gemm:jit", "ref:any"),
// with the suffix ":nchw" or ":nhwc" if it answers the second question and the
// first answer has other formats.

#include <array>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "base/conv_problem.h"
#include "base/units.h"

namespace ucudnn::onednn {

// Position of an operand in the arrays below, as in ConvArgs.
enum Operand : std::size_t { kA = 0, kB = 1, kOut = 2 };

// The three tensors of a convolution whatever its operation: input or input
// gradient, filter or its gradient, output or output gradient.
struct Tensors {
  dnnl::memory::desc input;
  dnnl::memory::desc filter;
  dnnl::memory::desc output;
};

// The tensors packed in the problem's layout; filters have their K outermost.
Tensors PlainTensors(const ConvProblem& problem, BatchSize batch);

// The tensors of one operation in the order of ConvArgs, and oneDNN's ids for
// them (DNNL_ARG_SRC and the like) in the same order.
std::array<dnnl::memory::desc, 3> Operands(ConvOp op, const Tensors& tensors);
std::array<int, 3> ArgumentNames(ConvOp op);

struct Implementation {
  std::string name;
  dnnl::primitive_desc descriptor;
  std::array<dnnl::memory::desc, 3> formats;  // of the operands
};

// Whether an implementation is oneDNN's reference, by its name.
bool IsReference(const std::string& name);

// Calls `visit` for the implementations one after the other, best first as
// oneDNN ranks them, until it returns false. Names are unique. The descriptor
// is valid during the visit only, unless the visit ends the walk.
void VisitImplementations(
    const dnnl::engine& engine, const ConvProblem& problem, BatchSize batch,
    const std::function<bool(const Implementation&)>& visit);

// The reference implementation of `problem`'s operation for tensors in any
// strided format, e.g. slices; empty if there is none.
dnnl::primitive_desc ReferenceFor(const dnnl::engine& engine,
                                  const ConvProblem& problem,
                                  const Tensors& tensors);

// Whether both have every element at the same place, so that no reorder is
// needed.
bool SamePlaces(const dnnl::memory::desc& a, const dnnl::memory::desc& b);

}  // namespace ucudnn::onednn

#endif  // UCUDNN_DEVICE_ONEDNN_IMPLEMENTATIONS_H_
