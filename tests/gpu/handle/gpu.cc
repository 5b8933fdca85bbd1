#include "gpu.h"

#include <array>

std::size_t ElementSize(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT ? 4 : 2;
}

namespace {

// "3x3"
std::string Joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    if (!text.empty()) text += 'x';
    text += std::to_string(number);
  }
  return text;
}

}  // namespace

std::string Problem::Text() const {
  return std::string(Name(op)) + " n" + std::to_string(n) + " c" +
         std::to_string(c) + " k" + std::to_string(k) + " in" + Joined(in) +
         " f" + Joined(filter) + " pad" + Joined(pad) + " str" +
         Joined(stride) + " dil" + Joined(dilation) + " g" +
         std::to_string(groups) +
         (type == CUDNN_DATA_FLOAT
              ? (math == CUDNN_FMA_MATH ? " FP32" : " TF32")
              : (type == CUDNN_DATA_HALF ? " HALF" : " BF16")) +
         (format == CUDNN_TENSOR_NCHW ? " NCHW" : " NHWC");
}

std::string Problem::Key() const {
  const auto named = [](const std::vector<int>& v, const char* letters) {
    std::string s;
    letters += 3 - v.size();
    for (const int i : v) s += *letters++ + std::to_string(i);
    return s;
  };
  const char* precision =
      type == CUDNN_DATA_HALF
          ? "PSEUDO_HALF"
          : (type == CUDNN_DATA_BFLOAT16
                 ? "BF16"
                 : (math == CUDNN_FMA_MATH ? "FP32" : "TF32"));
  return std::string(Name(op)) + "-c" + std::to_string(c) + "-" +
         named(in, "dhw") + "-k" + std::to_string(k) + "-" +
         named(filter, "trs") + "-pad" + Joined(pad) + "-str" + Joined(stride) +
         "-dil" + Joined(dilation) + "-g" + std::to_string(groups) + "-" +
         precision + (format == CUDNN_TENSOR_NCHW ? "-NCHW" : "-NHWC");
}

namespace {

std::vector<int> Strides(const std::vector<int>& dims,
                         cudnnTensorFormat_t format) {
  const std::size_t rank = dims.size();
  std::vector<int> strides(rank);
  int stride = 1;
  if (format == CUDNN_TENSOR_NHWC) {
    strides[1] = 1;
    stride = dims[1];
  }
  for (std::size_t i = rank - 1; i >= 2; --i) {
    strides[i] = stride;
    stride *= dims[i];
  }
  if (format == CUDNN_TENSOR_NCHW) {
    strides[1] = stride;
    stride *= dims[1];
  }
  strides[0] = stride;
  return strides;
}

std::size_t Product(const std::vector<int>& dims) {
  std::size_t product = 1;
  for (const int d : dims) product *= static_cast<std::size_t>(d);
  return product;
}

}  // namespace

Descriptors::Descriptors(const Problem& p) {
  std::vector<int> xd = {p.n, p.c};
  std::vector<int> yd = {p.n, p.k};
  std::vector<int> wd = {p.k, p.c / p.groups};
  for (std::size_t i = 0; i < p.in.size(); ++i) {
    xd.push_back(p.in[i]);
    wd.push_back(p.filter[i]);
    yd.push_back(
        (p.in[i] + 2 * p.pad[i] - p.dilation[i] * (p.filter[i] - 1) - 1) /
            p.stride[i] +
        1);
  }
  const int rank = static_cast<int>(xd.size());
  CHECK(cudnnCreateTensorDescriptor(&x));
  CHECK(cudnnCreateTensorDescriptor(&y));
  CHECK(cudnnCreateFilterDescriptor(&w));
  CHECK(cudnnCreateConvolutionDescriptor(&conv));
  CHECK(cudnnSetTensorNdDescriptor(x, p.type, rank, xd.data(),
                                   Strides(xd, p.format).data()));
  CHECK(cudnnSetTensorNdDescriptor(y, p.type, rank, yd.data(),
                                   Strides(yd, p.format).data()));
  CHECK(cudnnSetFilterNdDescriptor(w, p.type, p.format, rank, wd.data()));
  CHECK(cudnnSetConvolutionNdDescriptor(
      conv, rank - 2, p.pad.data(), p.stride.data(), p.dilation.data(),
      CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  CHECK(cudnnSetConvolutionGroupCount(conv, p.groups));
  CHECK(cudnnSetConvolutionMathType(conv, p.math));
  x_elements = Product(xd);
  w_elements = Product(wd);
  y_elements = Product(yd);
}

Descriptors::~Descriptors() {
  cudnnDestroyTensorDescriptor(x);
  cudnnDestroyTensorDescriptor(y);
  cudnnDestroyFilterDescriptor(w);
  cudnnDestroyConvolutionDescriptor(conv);
}

namespace {

template <class Perf, class Get, class Size>
Choice First(Get get, Size size, std::size_t limit, int direct) {
  Choice choice;
  if (direct >= 0) {
    using Algo = decltype(Perf::algo);
    if (size(static_cast<Algo>(direct), &choice.workspace) ==
        CUDNN_STATUS_SUCCESS) {
      choice.algorithm = direct;
    }
    return choice;
  }
  std::array<Perf, 8> results;
  int count = 0;
  if (get(8, &count, results.data()) != CUDNN_STATUS_SUCCESS) return choice;
  for (int i = 0; i < count; ++i) {
    const Perf& r = results[static_cast<std::size_t>(i)];
    if (r.status != CUDNN_STATUS_SUCCESS || r.memory > limit) continue;
    // Ask for the workspace size by its own function, as programs do.
    std::size_t bytes = 0;
    if (size(r.algo, &bytes) != CUDNN_STATUS_SUCCESS || bytes > limit) continue;
    choice.algorithm = r.algo;
    choice.workspace = bytes;
    choice.milliseconds = r.time;
    return choice;
  }
  return choice;
}

}  // namespace

Choice Choose(Handle handle, Op op, const Descriptors& d, std::size_t limit,
              bool direct) {
  switch (op) {
    case kForward:
      return First<cudnnConvolutionFwdAlgoPerf_t>(
          [&](int n, int* count, cudnnConvolutionFwdAlgoPerf_t* r) {
            return cudnnGetConvolutionForwardAlgorithm_v7(
                handle, d.x, d.w, d.conv, d.y, n, count, r);
          },
          [&](cudnnConvolutionFwdAlgo_t a, std::size_t* bytes) {
            return cudnnGetConvolutionForwardWorkspaceSize(
                handle, d.x, d.w, d.conv, d.y, a, bytes);
          },
          limit, direct ? CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM : -1);
    case kData:
      return First<cudnnConvolutionBwdDataAlgoPerf_t>(
          [&](int n, int* count, cudnnConvolutionBwdDataAlgoPerf_t* r) {
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(
                handle, d.w, d.y, d.conv, d.x, n, count, r);
          },
          [&](cudnnConvolutionBwdDataAlgo_t a, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardDataWorkspaceSize(
                handle, d.w, d.y, d.conv, d.x, a, bytes);
          },
          limit, direct ? CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 : -1);
    case kFilter:
      return First<cudnnConvolutionBwdFilterAlgoPerf_t>(
          [&](int n, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* r) {
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                handle, d.x, d.y, d.conv, d.w, n, count, r);
          },
          [&](cudnnConvolutionBwdFilterAlgo_t a, std::size_t* bytes) {
            return cudnnGetConvolutionBackwardFilterWorkspaceSize(
                handle, d.x, d.y, d.conv, d.w, a, bytes);
          },
          limit, direct ? CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 : -1);
  }
  return {};
}

cudnnStatus_t Convolve(Handle handle, Op op, const Descriptors& d,
                       const Choice& choice, float alpha, float beta, void* x,
                       void* w, void* y, void* workspace) {
  switch (op) {
    case kForward:
      return cudnnConvolutionForward(
          handle, &alpha, d.x, x, d.w, w, d.conv,
          static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm), workspace,
          choice.workspace, &beta, d.y, y);
    case kData:
      return cudnnConvolutionBackwardData(
          handle, &alpha, d.w, w, d.y, y, d.conv,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm),
          workspace, choice.workspace, &beta, d.x, x);
    case kFilter:
      return cudnnConvolutionBackwardFilter(
          handle, &alpha, d.x, x, d.y, y, d.conv,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm),
          workspace, choice.workspace, &beta, d.w, w);
  }
  return CUDNN_STATUS_BAD_PARAM;
}
