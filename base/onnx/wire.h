#ifndef UCUDNN_BASE_ONNX_WIRE_H_
#define UCUDNN_BASE_ONNX_WIRE_H_

// What an ONNX model would take in memory, before it is parsed; internal to
// base/onnx.

#include <cstdint>
#include <string_view>

namespace ucudnn {

// About how many bytes the parsed model takes besides its texts and weights, or
// some number above `max`, where it stops counting. An empty node is two bytes
// in a file, and some 200 in memory. O(size), without allocating.
std::int64_t OnnxOverhead(std::string_view bytes, std::int64_t max);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_WIRE_H_
