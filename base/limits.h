#ifndef UCUDNN_BASE_LIMITS_H_
#define UCUDNN_BASE_LIMITS_H_

// What is accepted from outside, so that no input takes more time and memory
// than it is worth. Every limit is far above what real networks and clusters
// need; errors name the limit.

#include <cstddef>
#include <cstdint>

namespace ucudnn {

// Nested values in a JSON text. Our own messages nest 7 levels deep; programs
// that walk nested values recurse once for each level.
inline constexpr int kMaxJsonDepth = 64;

// Convolutions of a network. The deepest networks in use have hundreds.
inline constexpr std::size_t kMaxLayers = 10'000;
// A layer's name, in bytes.
inline constexpr std::size_t kMaxLayerNameBytes = 512;

// ONNX models. Each node takes some 10 kB and 10 us while shapes are inferred,
// and the product of what a model repeats must stay bounded as well.
inline constexpr int kMaxOnnxNodes = 50'000;
inline constexpr std::size_t kMaxOnnxTensors = 100'000;
// Dimensions of one tensor, and of all tensors together.
inline constexpr int kMaxOnnxRank = 64;
inline constexpr std::size_t kMaxOnnxDimensions = 500'000;
// Shape inference reads initializers and constants with up to so many elements
// (shapes, axes, scales), and computes values up to this size; so many of all
// of them together. The library needs about 60 bytes for each element.
inline constexpr std::int64_t kMaxOnnxValues = 4096;
inline constexpr std::int64_t kMaxOnnxValuesInAll = 250'000;
// What the parsed model may take besides the bytes of its texts and weights.
inline constexpr std::int64_t kMaxOnnxOverheadBytes = std::int64_t{64} << 20;

}  // namespace ucudnn

#endif  // UCUDNN_BASE_LIMITS_H_
