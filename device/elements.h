#ifndef UCUDNN_DEVICE_ELEMENTS_H_
#define UCUDNN_DEVICE_ELEMENTS_H_

// Tensor elements in the form in which devices hold them.

#include <cstdint>
#include <string>
#include <vector>

#include "base/conv_problem.h"

namespace ucudnn {

// `count` elements drawn from the multiples of 1/64 in [-1, 1] without 0,
// which every precision represents exactly; the same for the same seed.
std::string RandomElements(std::int64_t count, Precision precision,
                           std::uint64_t seed);

// The elements as numbers. `bytes` holds a whole number of elements.
std::vector<float> DecodeElements(const std::string& bytes,
                                  Precision precision);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_ELEMENTS_H_
