// Asserts that what device/cudnn and the drop-in libraries use of cuDNN is the
// same in versions 8 and 9: enumerators, the structures of results, and the
// type of each function in the tables. Compiled with cuDNN 9's headers in every
// build, and with those of 8.7 and 8.9 by tests/device/cudnn/real_cudnn.sh.
// What differs is known to libraries.h: statuses, cudnnGetVersion,
// cudnnGetLastErrorString, and attributes of which cuDNN 8 is only asked as a
// hint, or not.

#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#if CUDNN_MAJOR >= 9
#include "device/cudnn/driver/libraries.h"
#endif

namespace {

static_assert(CUDNN_ACTIVATION_RELU == 1);
static_assert(CUDNN_ATTR_CONVOLUTION_COMP_TYPE == 100);
static_assert(CUDNN_ATTR_CONVOLUTION_CONV_MODE == 101);
static_assert(CUDNN_ATTR_CONVOLUTION_DILATIONS == 102);
static_assert(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES == 103);
static_assert(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS == 104);
static_assert(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS == 105);
static_assert(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS == 106);
static_assert(CUDNN_ATTR_ENGINECFG_ENGINE == 300);
static_assert(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES == 302);
static_assert(CUDNN_ATTR_ENGINEHEUR_MODE == 200);
static_assert(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH == 201);
static_assert(CUDNN_ATTR_ENGINEHEUR_RESULTS == 202);
static_assert(CUDNN_ATTR_ENGINE_GLOBAL_INDEX == 1301);
static_assert(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE == 1303);
static_assert(CUDNN_ATTR_ENGINE_OPERATION_GRAPH == 1300);
static_assert(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG == 401);
static_assert(CUDNN_ATTR_EXECUTION_PLAN_HANDLE == 400);
static_assert(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE == 402);
static_assert(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE == 600);
static_assert(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE == 601);
static_assert(CUDNN_ATTR_OPERATIONGRAPH_HANDLE == 800);
static_assert(CUDNN_ATTR_OPERATIONGRAPH_OPS == 801);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA == 706);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA == 707);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC == 708);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX == 710);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY == 711);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W == 709);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA == 712);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA == 713);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC == 714);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW == 715);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY == 717);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X == 716);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA == 700);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA == 701);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC == 702);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W == 703);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X == 704);
static_assert(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y == 705);
static_assert(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT == 900);
static_assert(CUDNN_ATTR_TENSOR_DATA_TYPE == 901);
static_assert(CUDNN_ATTR_TENSOR_DIMENSIONS == 902);
static_assert(CUDNN_ATTR_TENSOR_STRIDES == 903);
static_assert(CUDNN_ATTR_TENSOR_UNIQUE_ID == 906);
static_assert(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS == 1001);
static_assert(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS == 1000);
static_assert(CUDNN_ATTR_VARIANT_PACK_WORKSPACE == 1003);
static_assert(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR == 1);
static_assert(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR == 3);
static_assert(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR == 4);
static_assert(CUDNN_BACKEND_ENGINE_DESCRIPTOR == 2);
static_assert(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR == 5);
static_assert(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR == 7);
static_assert(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR == 15);
static_assert(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ==
              12);
static_assert(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ==
              11);
static_assert(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR == 10);
static_assert(CUDNN_BACKEND_TENSOR_DESCRIPTOR == 17);
static_assert(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR == 16);
static_assert(CUDNN_BATCHNORM_OPS_BN_ACTIVATION == 1);
static_assert(CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION == 2);
static_assert(CUDNN_BATCHNORM_SPATIAL == 1);
static_assert(CUDNN_BATCHNORM_SPATIAL_PERSISTENT == 2);
static_assert(CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 == 0);
static_assert(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 == 1);
static_assert(CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT == 2);
static_assert(CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING == 3);
static_assert(CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD == 4);
static_assert(CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED == 5);
static_assert(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 == 0);
static_assert(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 == 1);
static_assert(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 == 3);
static_assert(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT == 2);
static_assert(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING == 6);
static_assert(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED == 5);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_FFT == 4);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING == 5);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_GEMM == 2);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM == 0);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM == 1);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD == 6);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED == 7);
static_assert(CUDNN_CROSS_CORRELATION == 1);
static_assert(CUDNN_DATA_BFLOAT16 == 9);
static_assert(CUDNN_DATA_FLOAT == 0);
static_assert(CUDNN_DATA_HALF == 2);
static_assert(CUDNN_DEFAULT_MATH == 0);
static_assert(CUDNN_DETERMINISTIC == 1);
static_assert(CUDNN_FMA_MATH == 3);
static_assert(CUDNN_HEUR_MODE_A == 3);
static_assert(CUDNN_HEUR_MODE_FALLBACK == 2);
static_assert(CUDNN_LRN_CROSS_CHANNEL_DIM1 == 0);
static_assert(CUDNN_NON_DETERMINISTIC == 0);
static_assert(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS == 1);
static_assert(CUDNN_NUMERICAL_NOTE_TENSOR_CORE == 0);
static_assert(CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING == 2);
static_assert(CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING == 1);
static_assert(CUDNN_POOLING_MAX_DETERMINISTIC == 3);
static_assert(CUDNN_PROPAGATE_NAN == 1);
static_assert(CUDNN_SOFTMAX_ACCURATE == 1);
static_assert(CUDNN_SOFTMAX_MODE_CHANNEL == 1);
static_assert(CUDNN_TENSOR_NCHW == 0);
static_assert(CUDNN_TENSOR_NHWC == 1);
static_assert(CUDNN_TENSOR_OP_MATH == 1);
static_assert(CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION == 2);
static_assert(CUDNN_TYPE_BACKEND_DESCRIPTOR == 15);
static_assert(CUDNN_TYPE_CONVOLUTION_MODE == 7);
static_assert(CUDNN_TYPE_DATA_TYPE == 1);
static_assert(CUDNN_TYPE_FLOAT == 4);
static_assert(CUDNN_TYPE_HANDLE == 0);
static_assert(CUDNN_TYPE_HEUR_MODE == 8);
static_assert(CUDNN_TYPE_INT32 == 23);
static_assert(CUDNN_TYPE_INT64 == 3);
static_assert(CUDNN_TYPE_KNOB_TYPE == 9);
static_assert(CUDNN_TYPE_NUMERICAL_NOTE == 11);
static_assert(CUDNN_TYPE_VOID_PTR == 6);

template <class Perf>
constexpr bool IsLaidOutAsKnown() {
  return sizeof(Perf) == 48 && offsetof(Perf, algo) == 0 &&
         offsetof(Perf, status) == 4 && offsetof(Perf, time) == 8 &&
         offsetof(Perf, memory) == 16 && offsetof(Perf, determinism) == 24 &&
         offsetof(Perf, mathType) == 28;
}
static_assert(IsLaidOutAsKnown<cudnnConvolutionFwdAlgoPerf_t>());
static_assert(IsLaidOutAsKnown<cudnnConvolutionBwdDataAlgoPerf_t>());
static_assert(IsLaidOutAsKnown<cudnnConvolutionBwdFilterAlgoPerf_t>());

#if defined(__GNUC__) && !defined(__clang__)  // whose spelling of types this is
template <class F>
constexpr bool IsOfType(std::string_view wanted) {
  std::string_view type = __PRETTY_FUNCTION__;
  type.remove_prefix(type.find("F = ") + 4);
  return type.substr(0, std::min(type.find(';'), type.rfind(']'))) == wanted;
}
// clang-format off
#define UCUDNN_IS(function, type)                       \
  static_assert(IsOfType<decltype(function)>(type));    \
  [[maybe_unused]] constexpr bool kKnown_##function = true;
UCUDNN_IS(cudnnActivationBackward, "cudnnStatus_t(cudnnContext*, cudnnActivationStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnActivationForward, "cudnnStatus_t(cudnnContext*, cudnnActivationStruct*, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnAddTensor, "cudnnStatus_t(cudnnContext*, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnBackendCreateDescriptor, "cudnnStatus_t(cudnnBackendDescriptorType_t, void**)")
UCUDNN_IS(cudnnBackendDestroyDescriptor, "cudnnStatus_t(void*)")
UCUDNN_IS(cudnnBackendExecute, "cudnnStatus_t(cudnnContext*, void*, void*)")
UCUDNN_IS(cudnnBackendFinalize, "cudnnStatus_t(void*)")
UCUDNN_IS(cudnnBackendGetAttribute, "cudnnStatus_t(void*, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, long int, long int*, void*)")
UCUDNN_IS(cudnnBackendSetAttribute, "cudnnStatus_t(void*, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, long int, const void*)")
UCUDNN_IS(cudnnBatchNormalizationBackward, "cudnnStatus_t(cudnnContext*, cudnnBatchNormMode_t, const void*, const void*, const void*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, void*, cudnnTensorStruct*, const void*, void*, void*, double, const void*, const void*)")
UCUDNN_IS(cudnnBatchNormalizationBackwardEx, "cudnnStatus_t(cudnnContext*, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*, const void*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, void*, cudnnTensorStruct*, void*, cudnnTensorStruct*, const void*, const void*, void*, void*, double, const void*, const void*, cudnnActivationStruct*, void*, long unsigned int, void*, long unsigned int)")
UCUDNN_IS(cudnnBatchNormalizationForwardInference, "cudnnStatus_t(cudnnContext*, cudnnBatchNormMode_t, const void*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, void*, cudnnTensorStruct*, const void*, const void*, const void*, const void*, double)")
UCUDNN_IS(cudnnBatchNormalizationForwardTraining, "cudnnStatus_t(cudnnContext*, cudnnBatchNormMode_t, const void*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, void*, cudnnTensorStruct*, const void*, const void*, double, void*, void*, double, void*, void*)")
UCUDNN_IS(cudnnBatchNormalizationForwardTrainingEx, "cudnnStatus_t(cudnnContext*, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, void*, cudnnTensorStruct*, const void*, const void*, double, void*, void*, double, void*, void*, cudnnActivationStruct*, void*, long unsigned int, void*, long unsigned int)")
UCUDNN_IS(cudnnConvolutionBackwardBias, "cudnnStatus_t(cudnnContext*, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnConvolutionBackwardData, "cudnnStatus_t(cudnnContext*, const void*, cudnnFilterStruct*, const void*, cudnnTensorStruct*, const void*, cudnnConvolutionStruct*, cudnnConvolutionBwdDataAlgo_t, void*, long unsigned int, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnConvolutionBackwardFilter, "cudnnStatus_t(cudnnContext*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnConvolutionStruct*, cudnnConvolutionBwdFilterAlgo_t, void*, long unsigned int, const void*, cudnnFilterStruct*, void*)")
UCUDNN_IS(cudnnConvolutionForward, "cudnnStatus_t(cudnnContext*, const void*, cudnnTensorStruct*, const void*, cudnnFilterStruct*, const void*, cudnnConvolutionStruct*, cudnnConvolutionFwdAlgo_t, void*, long unsigned int, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnCreate, "cudnnStatus_t(cudnnContext**)")
UCUDNN_IS(cudnnCreateActivationDescriptor, "cudnnStatus_t(cudnnActivationStruct**)")
UCUDNN_IS(cudnnCreateConvolutionDescriptor, "cudnnStatus_t(cudnnConvolutionStruct**)")
UCUDNN_IS(cudnnCreateFilterDescriptor, "cudnnStatus_t(cudnnFilterStruct**)")
UCUDNN_IS(cudnnCreateLRNDescriptor, "cudnnStatus_t(cudnnLRNStruct**)")
UCUDNN_IS(cudnnCreatePoolingDescriptor, "cudnnStatus_t(cudnnPoolingStruct**)")
UCUDNN_IS(cudnnCreateTensorDescriptor, "cudnnStatus_t(cudnnTensorStruct**)")
UCUDNN_IS(cudnnDestroy, "cudnnStatus_t(cudnnContext*)")
UCUDNN_IS(cudnnDestroyActivationDescriptor, "cudnnStatus_t(cudnnActivationStruct*)")
UCUDNN_IS(cudnnDestroyConvolutionDescriptor, "cudnnStatus_t(cudnnConvolutionStruct*)")
UCUDNN_IS(cudnnDestroyFilterDescriptor, "cudnnStatus_t(cudnnFilterStruct*)")
UCUDNN_IS(cudnnDestroyLRNDescriptor, "cudnnStatus_t(cudnnLRNStruct*)")
UCUDNN_IS(cudnnDestroyPoolingDescriptor, "cudnnStatus_t(cudnnPoolingStruct*)")
UCUDNN_IS(cudnnDestroyTensorDescriptor, "cudnnStatus_t(cudnnTensorStruct*)")
UCUDNN_IS(cudnnFindConvolutionBackwardDataAlgorithm, "cudnnStatus_t(cudnnContext*, cudnnFilterStruct*, cudnnTensorStruct*, cudnnConvolutionStruct*, cudnnTensorStruct*, int, int*, cudnnConvolutionBwdDataAlgoPerfStruct*)")
UCUDNN_IS(cudnnFindConvolutionBackwardDataAlgorithmEx, "cudnnStatus_t(cudnnContext*, cudnnFilterStruct*, const void*, cudnnTensorStruct*, const void*, cudnnConvolutionStruct*, cudnnTensorStruct*, void*, int, int*, cudnnConvolutionBwdDataAlgoPerfStruct*, void*, long unsigned int)")
UCUDNN_IS(cudnnFindConvolutionBackwardFilterAlgorithm, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnConvolutionStruct*, cudnnFilterStruct*, int, int*, cudnnConvolutionBwdFilterAlgoPerfStruct*)")
UCUDNN_IS(cudnnFindConvolutionBackwardFilterAlgorithmEx, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnConvolutionStruct*, cudnnFilterStruct*, void*, int, int*, cudnnConvolutionBwdFilterAlgoPerfStruct*, void*, long unsigned int)")
UCUDNN_IS(cudnnFindConvolutionForwardAlgorithm, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, cudnnFilterStruct*, cudnnConvolutionStruct*, cudnnTensorStruct*, int, int*, cudnnConvolutionFwdAlgoPerfStruct*)")
UCUDNN_IS(cudnnFindConvolutionForwardAlgorithmEx, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, const void*, cudnnFilterStruct*, const void*, cudnnConvolutionStruct*, cudnnTensorStruct*, void*, int, int*, cudnnConvolutionFwdAlgoPerfStruct*, void*, long unsigned int)")
UCUDNN_IS(cudnnGetBatchNormalizationBackwardExWorkspaceSize, "cudnnStatus_t(cudnnContext*, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnTensorStruct*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnActivationStruct*, long unsigned int*)")
UCUDNN_IS(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, "cudnnStatus_t(cudnnContext*, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnTensorStruct*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnActivationStruct*, long unsigned int*)")
UCUDNN_IS(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, "cudnnStatus_t(cudnnContext*, cudnnBatchNormMode_t, cudnnBatchNormOps_t, cudnnActivationStruct*, cudnnTensorStruct*, long unsigned int*)")
UCUDNN_IS(cudnnGetConvolutionBackwardDataAlgorithm_v7, "cudnnStatus_t(cudnnContext*, cudnnFilterStruct*, cudnnTensorStruct*, cudnnConvolutionStruct*, cudnnTensorStruct*, int, int*, cudnnConvolutionBwdDataAlgoPerfStruct*)")
UCUDNN_IS(cudnnGetConvolutionBackwardDataWorkspaceSize, "cudnnStatus_t(cudnnContext*, cudnnFilterStruct*, cudnnTensorStruct*, cudnnConvolutionStruct*, cudnnTensorStruct*, cudnnConvolutionBwdDataAlgo_t, long unsigned int*)")
UCUDNN_IS(cudnnGetConvolutionBackwardFilterAlgorithm_v7, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnConvolutionStruct*, cudnnFilterStruct*, int, int*, cudnnConvolutionBwdFilterAlgoPerfStruct*)")
UCUDNN_IS(cudnnGetConvolutionBackwardFilterWorkspaceSize, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, cudnnTensorStruct*, cudnnConvolutionStruct*, cudnnFilterStruct*, cudnnConvolutionBwdFilterAlgo_t, long unsigned int*)")
UCUDNN_IS(cudnnGetConvolutionForwardAlgorithm_v7, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, cudnnFilterStruct*, cudnnConvolutionStruct*, cudnnTensorStruct*, int, int*, cudnnConvolutionFwdAlgoPerfStruct*)")
UCUDNN_IS(cudnnGetConvolutionForwardWorkspaceSize, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, cudnnFilterStruct*, cudnnConvolutionStruct*, cudnnTensorStruct*, cudnnConvolutionFwdAlgo_t, long unsigned int*)")
UCUDNN_IS(cudnnGetConvolutionGroupCount, "cudnnStatus_t(cudnnConvolutionStruct*, int*)")
UCUDNN_IS(cudnnGetConvolutionMathType, "cudnnStatus_t(cudnnConvolutionStruct*, cudnnMathType_t*)")
UCUDNN_IS(cudnnGetConvolutionNdDescriptor, "cudnnStatus_t(cudnnConvolutionStruct*, int, int*, int*, int*, int*, cudnnConvolutionMode_t*, cudnnDataType_t*)")
UCUDNN_IS(cudnnGetErrorString, "const char*(cudnnStatus_t)")
UCUDNN_IS(cudnnGetFilterNdDescriptor, "cudnnStatus_t(cudnnFilterStruct*, int, cudnnDataType_t*, cudnnTensorFormat_t*, int*, int*)")
UCUDNN_IS(cudnnGetStream, "cudnnStatus_t(cudnnContext*, CUstream_st**)")
UCUDNN_IS(cudnnGetTensorNdDescriptor, "cudnnStatus_t(cudnnTensorStruct*, int, cudnnDataType_t*, int*, int*, int*)")
UCUDNN_IS(cudnnGetVersion, "long unsigned int()")
UCUDNN_IS(cudnnLRNCrossChannelBackward, "cudnnStatus_t(cudnnContext*, cudnnLRNStruct*, cudnnLRNMode_t, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnLRNCrossChannelForward, "cudnnStatus_t(cudnnContext*, cudnnLRNStruct*, cudnnLRNMode_t, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnPoolingBackward, "cudnnStatus_t(cudnnContext*, cudnnPoolingStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnPoolingForward, "cudnnStatus_t(cudnnContext*, cudnnPoolingStruct*, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
UCUDNN_IS(cudnnScaleTensor, "cudnnStatus_t(cudnnContext*, cudnnTensorStruct*, void*, const void*)")
UCUDNN_IS(cudnnSetActivationDescriptor, "cudnnStatus_t(cudnnActivationStruct*, cudnnActivationMode_t, cudnnNanPropagation_t, double)")
UCUDNN_IS(cudnnSetConvolutionGroupCount, "cudnnStatus_t(cudnnConvolutionStruct*, int)")
UCUDNN_IS(cudnnSetConvolutionMathType, "cudnnStatus_t(cudnnConvolutionStruct*, cudnnMathType_t)")
UCUDNN_IS(cudnnSetConvolutionNdDescriptor, "cudnnStatus_t(cudnnConvolutionStruct*, int, const int*, const int*, const int*, cudnnConvolutionMode_t, cudnnDataType_t)")
UCUDNN_IS(cudnnSetFilterNdDescriptor, "cudnnStatus_t(cudnnFilterStruct*, cudnnDataType_t, cudnnTensorFormat_t, int, const int*)")
UCUDNN_IS(cudnnSetLRNDescriptor, "cudnnStatus_t(cudnnLRNStruct*, unsigned int, double, double, double)")
UCUDNN_IS(cudnnSetPoolingNdDescriptor, "cudnnStatus_t(cudnnPoolingStruct*, cudnnPoolingMode_t, cudnnNanPropagation_t, int, const int*, const int*, const int*)")
UCUDNN_IS(cudnnSetStream, "cudnnStatus_t(cudnnContext*, CUstream_st*)")
UCUDNN_IS(cudnnSetTensorNdDescriptor, "cudnnStatus_t(cudnnTensorStruct*, cudnnDataType_t, int, const int*, const int*)")
UCUDNN_IS(cudnnSoftmaxForward, "cudnnStatus_t(cudnnContext*, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, const void*, cudnnTensorStruct*, const void*, const void*, cudnnTensorStruct*, void*)")
// clang-format on

#if CUDNN_MAJOR >= 9  // all functions of the tables are above
#define UCUDNN_IS_KNOWN(member, function) static_assert(kKnown_##function);
UCUDNN_CUDNN_FUNCTIONS(UCUDNN_IS_KNOWN)
UCUDNN_OPERATOR_FUNCTIONS(UCUDNN_IS_KNOWN)
#endif
#endif

}  // namespace
