// Reads descriptors from a fake cuDNN whose getters the test answers.

#include "client/dropin/handle/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ucudnn::cudnn {
namespace {

using ::testing::HasSubstr;

struct Tensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> dims, strides;
};
struct Filter {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  std::vector<int> dims;
};
struct Convolution {
  std::vector<int> pad, stride, dilation;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_FMA_MATH;
  int groups = 1;
};

// A descriptor is a pointer to one of these structures.
template <class T, class D>
const T* Of(D descriptor) {
  return reinterpret_cast<const T*>(descriptor);
}
template <class D, class T>
D Descriptor(T* value) {
  return reinterpret_cast<D>(value);
}

CudnnApi Getters() {
  CudnnApi api;
  api.GetTensorNdDescriptor = [](cudnnTensorDescriptor_t d, int n,
                                 cudnnDataType_t* type, int* rank, int dims[],
                                 int strides[]) {
    const Tensor* t = Of<Tensor>(d);
    if (t == nullptr) return CUDNN_STATUS_BAD_PARAM;
    *type = t->type;
    *rank = static_cast<int>(t->dims.size());
    for (int i = 0; i < std::min(n, *rank); ++i) {
      dims[i] = t->dims[static_cast<std::size_t>(i)];
      strides[i] = t->strides[static_cast<std::size_t>(i)];
    }
    return CUDNN_STATUS_SUCCESS;
  };
  api.GetFilterNdDescriptor =
      [](cudnnFilterDescriptor_t d, int n, cudnnDataType_t* type,
         cudnnTensorFormat_t* format, int* rank, int dims[]) {
        const Filter* f = Of<Filter>(d);
        if (f == nullptr) return CUDNN_STATUS_BAD_PARAM;
        *type = f->type;
        *format = f->format;
        *rank = static_cast<int>(f->dims.size());
        std::copy_n(f->dims.begin(), std::min(n, *rank), dims);
        return CUDNN_STATUS_SUCCESS;
      };
  api.GetConvolutionNdDescriptor =
      [](cudnnConvolutionDescriptor_t d, int n, int* rank, int pad[],
         int stride[], int dilation[], cudnnConvolutionMode_t* mode,
         cudnnDataType_t* compute) {
        const Convolution* c = Of<Convolution>(d);
        if (c == nullptr) return CUDNN_STATUS_BAD_PARAM;
        *rank = static_cast<int>(c->pad.size());
        std::copy_n(c->pad.begin(), std::min(n, *rank), pad);
        std::copy_n(c->stride.begin(), std::min(n, *rank), stride);
        std::copy_n(c->dilation.begin(), std::min(n, *rank), dilation);
        *mode = c->mode;
        *compute = c->compute;
        return CUDNN_STATUS_SUCCESS;
      };
  api.GetConvolutionMathType = [](cudnnConvolutionDescriptor_t d,
                                  cudnnMathType_t* math) {
    *math = Of<Convolution>(d)->math;
    return CUDNN_STATUS_SUCCESS;
  };
  api.GetConvolutionGroupCount = [](cudnnConvolutionDescriptor_t d, int* n) {
    *n = Of<Convolution>(d)->groups;
    return CUDNN_STATUS_SUCCESS;
  };
  return api;
}

// AlexNet's conv2 in two groups, NCHW, batch 4.
struct Conv2 {
  Tensor x{CUDNN_DATA_FLOAT, {4, 96, 27, 27}, {69984, 729, 27, 1}};
  Filter w{CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, {256, 48, 5, 5}};
  Tensor y{CUDNN_DATA_FLOAT, {4, 256, 27, 27}, {186624, 729, 27, 1}};
  Convolution conv{{2, 2}, {1, 1}, {1, 1}};
  ConvOp op = ConvOp::kForward;
  std::int64_t layer = 0;

  Conv2() { conv.groups = 2; }
  void SetType(cudnnDataType_t type) { x.type = w.type = y.type = type; }
  CallKey Key() {
    static const CudnnApi api = Getters();
    CallKey key;
    EXPECT_TRUE(ReadKey(api,
                        {op, Descriptor<cudnnTensorDescriptor_t>(&x),
                         Descriptor<cudnnFilterDescriptor_t>(&w),
                         Descriptor<cudnnConvolutionDescriptor_t>(&conv),
                         Descriptor<cudnnTensorDescriptor_t>(&y), layer},
                        &key));
    return key;
  }
  std::string Problem() {
    const auto shape = ShapeOf(Key());
    return shape ? ToString(shape->problem) : shape.error().message;
  }
};

TEST(CallTest, ReadsAProblem) {
  Conv2 c;
  EXPECT_EQ(c.Problem(),
            "forward-c96-h27w27-k256-r5s5-pad2x2-str1x1-dil1x1-g2-FP32-NCHW");
  EXPECT_EQ(ShapeOf(c.Key())->batch, BatchSize(4));
  c.op = ConvOp::kBackwardFilter;
  EXPECT_THAT(c.Problem(), HasSubstr("backward_filter-"));
}

TEST(CallTest, ReadsPrecisionsFromDataArithmeticAndMath) {
  Conv2 c;
  c.conv.math = CUDNN_DEFAULT_MATH;
  EXPECT_THAT(c.Problem(), HasSubstr("-TF32-"));
  c.SetType(CUDNN_DATA_HALF);
  EXPECT_THAT(c.Problem(), HasSubstr("-PSEUDO_HALF-"));
  c.conv.compute = CUDNN_DATA_HALF;
  EXPECT_THAT(c.Problem(), HasSubstr("-TRUE_HALF-"));
  c.SetType(CUDNN_DATA_BFLOAT16);
  EXPECT_THAT(c.Problem(), HasSubstr("together"));
  c.conv.compute = CUDNN_DATA_FLOAT;
  EXPECT_THAT(c.Problem(), HasSubstr("-BF16-"));
  c.conv.math = CUDNN_FMA_MATH;
  EXPECT_THAT(c.Problem(), HasSubstr("together"));
}

TEST(CallTest, ReadsNhwcAndThreeDimensions) {
  Conv2 c;
  c.w.format = CUDNN_TENSOR_NHWC;
  c.x.strides = {69984, 1, 27 * 96, 96};
  c.y.strides = {186624, 1, 27 * 256, 256};
  EXPECT_THAT(c.Problem(), HasSubstr("-FP32-NHWC"));

  Conv2 deep;
  deep.x = {CUDNN_DATA_FLOAT, {2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}};
  deep.w = {CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, {7, 3, 2, 3, 4}};
  deep.y = {CUDNN_DATA_FLOAT, {2, 7, 3, 3, 3}, {189, 27, 9, 3, 1}};
  deep.conv = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}};
  EXPECT_EQ(deep.Problem(),
            "forward-c3-d4h5w6-k7-t2r3s4-pad0x0x0-str1x1x1-dil1x1x1-g1-FP32-"
            "NCHW");
}

TEST(CallTest, LeavesToCudnnWhatWeDoNotDivide) {
  const auto refused = [](auto change, const char* why) {
    Conv2 c;
    change(c);
    const auto shape = ShapeOf(c.Key());
    ASSERT_FALSE(shape) << why;
    EXPECT_EQ(shape.error().code, Code::kUnimplemented);
    EXPECT_THAT(shape.error().message, HasSubstr(why));
  };
  refused([](Conv2& c) { c.conv.mode = CUDNN_CONVOLUTION; }, "flipped");
  refused([](Conv2& c) { c.x.strides[0] += 16; }, "not packed");
  refused(
      [](Conv2& c) {
        c.y.strides = {186624, 1, 27 * 256, 256};
      },
      "not packed");
  refused([](Conv2& c) { c.w.format = CUDNN_TENSOR_NHWC; }, "not packed");
  refused([](Conv2& c) { c.w.format = CUDNN_TENSOR_NCHW_VECT_C; },
          "vectorised");
  refused([](Conv2& c) { c.SetType(CUDNN_DATA_DOUBLE); }, "together");
  refused([](Conv2& c) { c.y.type = CUDNN_DATA_HALF; }, "different types");
  refused([](Conv2& c) { c.y.dims[2] = 26; }, "not packed");
  refused([](Conv2& c) { c.y.dims[0] = 3; }, "not packed");
  refused([](Conv2& c) { c.w.dims[1] = 96; }, "channels");
  refused([](Conv2& c) { c.conv.stride[0] = 0; }, "stride");
  refused([](Conv2& c) { c.conv.pad = {1}; }, "dimensions");
}

TEST(CallTest, DistinguishesConvolutionsByEveryField) {
  const CallKey key = Conv2().Key();
  EXPECT_EQ(key, Conv2().Key());
  const auto differs = [&](auto change) {
    Conv2 c;
    change(c);
    const CallKey other = c.Key();
    EXPECT_NE(key, other);
    EXPECT_NE(CallKeyHash()(key), CallKeyHash()(other));
  };
  differs([](Conv2& c) { c.op = ConvOp::kBackwardData; });
  differs([](Conv2& c) { c.layer = std::int64_t{1} << 40; });
  differs([](Conv2& c) { c.x.dims[0] = 5; });
  differs([](Conv2& c) { c.y.strides[3] = 2; });
  differs([](Conv2& c) { c.w.dims[3] = 3; });
  differs([](Conv2& c) { c.conv.pad[1] = 1; });
  differs([](Conv2& c) { c.conv.dilation[0] = 2; });
  differs([](Conv2& c) { c.conv.math = CUDNN_TENSOR_OP_MATH; });
  differs([](Conv2& c) { c.conv.groups = 1; });
}

TEST(CallTest, ReportsAMissingDescriptor) {
  static const CudnnApi api = Getters();
  CallKey key;
  EXPECT_FALSE(ReadKey(api, {}, &key));
}

}  // namespace
}  // namespace ucudnn::cudnn
