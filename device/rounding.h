#ifndef UCUDNN_DEVICE_ROUNDING_H_
#define UCUDNN_DEVICE_ROUNDING_H_

// How far from the exact result a right one may be. Pure.

#include "base/conv_problem.h"
#include "base/profile.h"

namespace ucudnn {

// The error of an element that rounding in the precision explains, in units of
// the largest sum of absolute products (ReferenceElement::magnitude) of any:
// Winograd and FFT algorithms spread errors over neighbouring elements.
double ToleranceOf(Precision precision);

// Whether it is Winograd on filters beyond 3x3, as cuDNN's first interface
// names it: in FP32 that errs more by nature, and was seen to be off by 1.4e-4
// on 5x5.
bool IsLargeWinograd(const Algorithm& algorithm, const ConvGeometry& geometry);

// The same, with that admitted.
double ToleranceOf(const Algorithm& algorithm, const ConvGeometry& geometry);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_ROUNDING_H_
