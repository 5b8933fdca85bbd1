#ifndef UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_CUDNN_TYPES_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_CUDNN_TYPES_H_

// What the fake cuDNN's handles and descriptors hold, and what its parts share.

#include <cudnn.h>

#include <array>

inline constexpr auto kOk = CUDNN_STATUS_SUCCESS;
#if FAKE_CUDNN == 8  // whose statuses have other numbers than the header's
#define CUDNN_STATUS_BAD_PARAM static_cast<cudnnStatus_t>(3)
#define CUDNN_STATUS_NOT_SUPPORTED static_cast<cudnnStatus_t>(9)
#endif

inline const float* Floats(const void* data) {
  return static_cast<const float*>(data);
}
inline float* Floats(void* data) { return static_cast<float*>(data); }

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0;
  std::array<int, 5> dims = {};
  std::array<int, 5> strides = {};
};
struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int rank = 0;
  std::array<int, 5> dims = {};
};
struct cudnnConvolutionStruct {
  int rank = 0;
  std::array<int, 3> pad = {};
  std::array<int, 3> stride = {};
  std::array<int, 3> dilation = {};
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
};

struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
};
struct cudnnLRNStruct {
  int size = 1;
  double alpha = 0;
  double beta = 0;
  double bias = 1;
};
// Depth, height and width.
struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  int rank = 2;
  std::array<int, 3> window = {1, 1, 1};
  std::array<int, 3> pad = {};
  std::array<int, 3> stride = {1, 1, 1};
};

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_GPU_FAKE_CUDNN_TYPES_H_
