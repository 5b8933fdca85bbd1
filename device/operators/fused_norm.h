#ifndef UCUDNN_DEVICE_OPERATORS_FUSED_NORM_H_
#define UCUDNN_DEVICE_OPERATORS_FUSED_NORM_H_

// Batch normalization as a training step computes it, with the sum and the ReLU
// behind it, in one operation each way:
//
//   y = relu(scale * (x - mean) * inverse_deviation + bias [+ z])
//
// where mean and inverse_deviation = 1 / sqrt(variance + epsilon) are those of
// each channel of x. x, z, y and their gradients are packed with channels last,
// 2 bytes an element, aligned to 16 bytes; what a channel has one of is a
// float.

#include <cstdint>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

struct NormProblem {
  enum class Element { kHalf, kBfloat16 };

  Element element = Element::kHalf;
  std::int64_t images = 0;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool adds = false;  // there is a z
};

// A workspace of at least so many bytes, aligned to 256 bytes.
struct NormWorkspace {
  void* memory = nullptr;
  Bytes size;
};

struct NormForward {
  const void* x = nullptr;
  const void* z = nullptr;  // null if nothing is added
  const float* scale = nullptr;
  const float* bias = nullptr;
  // Both become (1 - momentum) * old + momentum * new, the variance without
  // bias; both null: there are none.
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  double momentum = 0;
  double epsilon = 0;  // at least CUDNN_BN_MIN_EPSILON of cudnn.h, which is 0
  void* y = nullptr;
  // What Backward needs again; `reserve` may be null if FusedNorm::reserve is
  // 0.
  float* mean = nullptr;
  float* inverse_deviation = nullptr;
  void* reserve = nullptr;
};

struct NormBackward {
  const void* x = nullptr;
  const void* dy = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const float* mean = nullptr;
  const float* inverse_deviation = nullptr;
  void* reserve = nullptr;  // only read
  double epsilon = 0;
  void* dx = nullptr;
  void* dz = nullptr;  // null if nothing is added
  float* dscale = nullptr;
  float* dbias = nullptr;
};

// One problem, prepared. One thread at a time uses it and its device, which
// must outlive it.
class FusedNorm {
 public:
  virtual ~FusedNorm() = default;

  virtual Bytes forward_workspace() const = 0;
  virtual Bytes backward_workspace() const = 0;
  virtual Bytes reserve() const = 0;

  // Enqueue the operation on the device's stream, which may be being captured;
  // neither allocate on the device nor wait for it. kInvalidArgument if an
  // operand is null or the workspace too small.
  virtual Status Forward(const NormForward& operands,
                         const NormWorkspace& workspace) = 0;
  virtual Status Backward(const NormBackward& operands,
                          const NormWorkspace& workspace) = 0;
};

// kInvalidArgument, naming the size that is out of range: each is at least 1
// and at most 2^31 - 1.
Status Validate(const NormProblem& problem);

// kInvalidArgument, saying what is missing.
Status CheckRun(const NormProblem& problem, const FusedNorm& norm,
                const NormForward& operands, const NormWorkspace& workspace);
Status CheckRun(const NormProblem& problem, const FusedNorm& norm,
                const NormBackward& operands, const NormWorkspace& workspace);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_OPERATORS_FUSED_NORM_H_
