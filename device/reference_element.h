#ifndef UCUDNN_DEVICE_REFERENCE_ELEMENT_H_
#define UCUDNN_DEVICE_REFERENCE_ELEMENT_H_

// Single elements of a convolution's result, computed the obvious way in
// double: enough to tell whether an algorithm is correct. Pure.

#include <cstdint>
#include <vector>

#include "base/conv_problem.h"
#include "base/units.h"

namespace ucudnn {

// The sum of the products and of their absolute values, to which an algorithm's
// rounding errors are proportional.
struct ReferenceElement {
  double value = 0;
  double magnitude = 0;
};

// Element `index` of op(a, b) as it lies in memory, `a` and `b` being those of
// ConvArgs: packed tensors of `batch` images in the problem's layout, each
// given whole or as a pattern that repeats from its start to its end. Costs as
// many multiply-adds as the element has products.
ReferenceElement ComputeElement(const ConvProblem& problem, BatchSize batch,
                                const std::vector<float>& a,
                                const std::vector<float>& b,
                                std::int64_t index);

// How many elements each operand has for a batch.
struct OperandElements {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t out = 0;
};
OperandElements ElementsOf(const ConvProblem& problem, BatchSize batch);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_REFERENCE_ELEMENT_H_
