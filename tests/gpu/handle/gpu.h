#ifndef UCUDNN_TESTS_GPU_HANDLE_GPU_H_
#define UCUDNN_TESTS_GPU_HANDLE_GPU_H_

// A program on plain cuDNN, compiled once as it is and once with UcudnnHandle_t
// instead of cudnnHandle_t. It uses nothing else of ucudnn.

#ifdef UCUDNN_GPU_TEST_HANDLE
#include <ucudnn/handle.h>
using Handle = UcudnnHandle_t;
#else
#include <cudnn.h>
using Handle = cudnnHandle_t;
#endif
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
inline void Check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, cudnnGetErrorString(status));
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

// Device memory that grows on demand.
class Memory {
 public:
  ~Memory() { cudaFree(data_); }
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* Get(std::size_t size) {
    if (size > size_) {
      CHECK(cudaFree(data_));
      data_ = nullptr;
      CHECK(cudaMalloc(&data_, size));
      size_ = size;
    }
    return data_;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

enum Op { kForward, kData, kFilter };
inline const char* Name(Op op) {
  return op == kForward ? "forward"
                        : (op == kData ? "backward_data" : "backward_filter");
}

// The parameters of a convolution in two or three spatial dimensions.
struct Problem {
  Op op = kForward;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_FMA_MATH;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int n = 1, c = 1, k = 1, groups = 1;
  std::vector<int> in, filter, pad, stride, dilation;

  std::string Text() const;
  // ucudnn's text for it.
  std::string Key() const;
};

std::size_t ElementSize(cudnnDataType_t type);

// The descriptors of a problem.
class Descriptors {
 public:
  explicit Descriptors(const Problem& p);
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  std::size_t x_elements = 1, w_elements = 1, y_elements = 1;
};

// The algorithm that cuDNN's or the handle's getter lists first within `limit`
// bytes; -1 if there is none. `direct`: the simplest algorithm instead.
struct Choice {
  int algorithm = -1;
  std::size_t workspace = 0;
  float milliseconds = -1;
};
Choice Choose(Handle handle, Op op, const Descriptors& d, std::size_t limit,
              bool direct);

cudnnStatus_t Convolve(Handle handle, Op op, const Descriptors& d,
                       const Choice& choice, float alpha, float beta, void* x,
                       void* w, void* y, void* workspace);

// The program's commands.
int RunRandom(int first, int count, int batch, bool direct,
              const std::string& file);
// A plan file that divides each problem, all with `batch` images, into uneven
// micro-batches.
int WritePlan(int first, int count, int batch, const std::string& file);
int Compare(const std::string& a, const std::string& b, double limit);
// `precision`: fp32, tf32 or half. `each`: also each kernel by itself.
int TimeNetwork(const std::string& file, int batch,
                const std::string& precision, bool each);
int MeasureOverhead(int pieces);
int RunStreams();
int CheckSemantics();

#endif  // UCUDNN_TESTS_GPU_HANDLE_GPU_H_
