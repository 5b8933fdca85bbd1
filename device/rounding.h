#ifndef UCUDNN_DEVICE_ROUNDING_H_
#define UCUDNN_DEVICE_ROUNDING_H_

// How far a correct result may be from the exact one. Pure.

#include "base/conv_problem.h"
#include "base/profile.h"

namespace ucudnn {

// The error of an element that rounding in the precision explains, in units of
// the largest sum of absolute products (ReferenceElement::magnitude) of any
// element: Winograd and FFT algorithms spread errors over neighbours.
double ToleranceOf(Precision precision);

// Whether the algorithm is Winograd on filters beyond 3x3, by its name in
// cuDNN's legacy API: in FP32 it is inherently less accurate, with an observed
// error of 1.4e-4 on 5x5.
bool IsLargeWinograd(const Algorithm& algorithm, const ConvGeometry& geometry);

// The same for an algorithm, with the larger error of large Winograd admitted.
double ToleranceOf(const Algorithm& algorithm, const ConvGeometry& geometry);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_ROUNDING_H_
