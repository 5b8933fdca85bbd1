// The calls of device/cudnn to cuDNN and the driver, and how it handles their
// answers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "device/cudnn/algorithm_families.h"
#include "device/cudnn/driver/context.h"
#include "device/cudnn/graph/graph.h"
#include "device/cudnn/handle.h"
#include "device/cudnn/legacy/legacy.h"
#include "tests/device/cudnn/cudnn_fake.h"

namespace ucudnn::cudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ConvProblem Problem(ConvOp op, Precision precision = Precision::kFp32) {
  ConvProblem problem;
  problem.op = op;
  problem.precision = precision;
  problem.geometry.channels = 8;
  problem.geometry.filters = 16;
  problem.geometry.input = {1, 6, 6};
  problem.geometry.filter = {1, 3, 3};
  return problem;
}

class CudnnCallsTest : public ::testing::Test {
 protected:
  CudnnCallsTest() { ResetFake(); }
  ~CudnnCallsTest() override {
    handle_.reset();
    EXPECT_EQ(Fake().alive, 0) << "descriptors were not destroyed";
    EXPECT_THAT(Fake().current, IsEmpty()) << "a context is still current";
    EXPECT_THAT(Fake().memory, IsEmpty()) << "memory was not freed";
  }

  void* Memory(int i) { return memory_ + i * 1024; }
  ConvArgs Args(float alpha = 1, float beta = 0) {
    return {Memory(0), Memory(1), Memory(2), alpha, beta};
  }
  // A prepared engine; clears the runs of its check.
  Result<std::unique_ptr<Convolution>> Engine(ConvOp op) {
    auto engine = PrepareGraph(*handle_, Problem(op), BatchSize(4),
                               {"eng3", "", Precision::kFp32});
    Fake().runs.clear();
    return engine;
  }

  alignas(256) char memory_[4096] = {};
  const CudnnApi api_ = FakeCudnn();
  const DriverApi driver_ = FakeDriver();
  std::unique_ptr<CudnnHandle> handle_ =
      CudnnHandle::Wrap(api_, reinterpret_cast<cudnnHandle_t>(0x1), &driver_);
};

TEST_F(CudnnCallsTest, ListTheLegacyAlgorithmsThatCudnnGivesAWorkspaceFor) {
  Fake().workspace = 4096;
  Fake().refusals[CUDNN_CONVOLUTION_FWD_ALGO_FFT] = CUDNN_STATUS_NOT_SUPPORTED;
  Fake().refusals[CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD] =
      CUDNN_STATUS_INTERNAL_ERROR;
  const auto listed = ListLegacy(
      *handle_, Problem(ConvOp::kForward, Precision::kTf32), BatchSize(2));
  ASSERT_TRUE(listed) << listed.error().message;
  std::vector<std::string> names;
  for (const Candidate& c : *listed) {
    if (c.algorithm.math == "FMA") {
      EXPECT_EQ(c.algorithm.precision, Precision::kFp32);
      names.push_back(c.algorithm.name);
    }
    EXPECT_EQ(c.workspace, Bytes(4096));
  }
  EXPECT_THAT(names, ElementsAre("IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM",
                                 "GEMM", "FFT_TILING", "WINOGRAD_NONFUSED"));
  EXPECT_THAT(*listed, SizeIs(15));
}

std::vector<std::string> Described(const std::vector<Candidate>& candidates) {
  std::vector<std::string> texts;
  for (const Candidate& c : candidates) {
    texts.push_back(fmt::format("{} {} {}", c.algorithm.name,
                                Name(c.algorithm.precision), c.algorithm.math));
  }
  return texts;
}

TEST_F(CudnnCallsTest, SuggestWhatTheHeuristicsWouldTake) {
  // Algorithm 7 is named and refused; 0 and 3 are not named.
  for (const int algorithm : {2, 4, 6, 7}) {
    Fake().refusals[algorithm] = CUDNN_STATUS_NOT_SUPPORTED;
  }
  Fake().suggestions[CUDNN_DATA_FLOAT] = {
      {7, CUDNN_FMA_MATH}, {5, CUDNN_FMA_MATH}, {1, CUDNN_FMA_MATH}};
  const std::map<ConvOp, std::vector<std::string>> expected = {
      {ConvOp::kForward,
       {"FFT_TILING FP32 FMA", "IMPLICIT_PRECOMP_GEMM FP32 FMA",
        "IMPLICIT_GEMM FP32 FMA"}},
      {ConvOp::kBackwardData,
       {"WINOGRAD_NONFUSED FP32 FMA", "ALGO_1 FP32 FMA", "ALGO_0 FP32 FMA",
        "FFT_TILING FP32 FMA"}},
      {ConvOp::kBackwardFilter,
       {"WINOGRAD_NONFUSED FP32 FMA", "ALGO_1 FP32 FMA", "ALGO_0 FP32 FMA",
        "ALGO_3 FP32 FMA"}}};
  for (const auto& [op, names] : expected) {
    const auto suggested =
        SuggestConvolutions(*handle_, {}, Problem(op), BatchSize(2));
    ASSERT_TRUE(suggested) << suggested.error().message;
    EXPECT_EQ(Described(*suggested), names);
  }
}

TEST_F(CudnnCallsTest, SuggestOnlyRequestedArithmetic) {
  for (int algorithm = 2; algorithm < 8; ++algorithm) {
    Fake().refusals[algorithm] = CUDNN_STATUS_NOT_SUPPORTED;
  }
  // The matrix units are fast, but FP32 may not have them.
  Fake().suggestions[CUDNN_DATA_FLOAT] = {{1, CUDNN_TENSOR_OP_MATH},
                                          {0, CUDNN_DEFAULT_MATH},
                                          {1, CUDNN_DEFAULT_MATH}};
  const auto exact = SuggestConvolutions(
      *handle_, {}, Problem(ConvOp::kForward), BatchSize(2));
  ASSERT_TRUE(exact);
  EXPECT_THAT(Described(*exact), ElementsAre("IMPLICIT_GEMM FP32 FMA",
                                             "IMPLICIT_PRECOMP_GEMM FP32 FMA"));
  const auto fast = SuggestConvolutions(
      *handle_, {}, Problem(ConvOp::kForward, Precision::kTf32), BatchSize(2));
  ASSERT_TRUE(fast);
  EXPECT_EQ(Described(*fast)[0], "IMPLICIT_PRECOMP_GEMM TF32 TENSOR_OP");
}

TEST_F(CudnnCallsTest, SuggestTheRequestedArithmeticFirst) {
  for (int algorithm = 2; algorithm < 8; ++algorithm) {
    Fake().refusals[algorithm] = CUDNN_STATUS_NOT_SUPPORTED;
  }
  Fake().suggestions[CUDNN_DATA_HALF] = {{1, CUDNN_TENSOR_OP_MATH}};
  Fake().suggestions[CUDNN_DATA_FLOAT] = {{0, CUDNN_TENSOR_OP_MATH},
                                          {0, CUDNN_DEFAULT_MATH}};
  const auto suggested = SuggestConvolutions(
      *handle_, {}, Problem(ConvOp::kForward, Precision::kTrueHalf),
      BatchSize(2));
  ASSERT_TRUE(suggested);
  EXPECT_THAT(Described(*suggested),
              ElementsAre("IMPLICIT_PRECOMP_GEMM TRUE_HALF DEFAULT",
                          "IMPLICIT_PRECOMP_GEMM TRUE_HALF TENSOR_OP",
                          "IMPLICIT_GEMM PSEUDO_HALF TENSOR_OP",
                          "IMPLICIT_GEMM PSEUDO_HALF DEFAULT",
                          "IMPLICIT_GEMM TRUE_HALF DEFAULT",
                          "IMPLICIT_GEMM TRUE_HALF TENSOR_OP",
                          "IMPLICIT_PRECOMP_GEMM PSEUDO_HALF DEFAULT",
                          "IMPLICIT_PRECOMP_GEMM PSEUDO_HALF TENSOR_OP"));
}

TEST_F(CudnnCallsTest, SuggestLessAccurateAlgorithmsLast) {
  Fake().refusals[CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD] =
      CUDNN_STATUS_NOT_SUPPORTED;
  Fake().suggestions[CUDNN_DATA_FLOAT] = {
      {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, CUDNN_FMA_MATH},
      {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_FMA_MATH}};
  ConvProblem problem = Problem(ConvOp::kForward);
  const auto small = SuggestConvolutions(*handle_, {}, problem, BatchSize(2));
  ASSERT_TRUE(small);
  EXPECT_EQ(Described(*small).front(), "WINOGRAD_NONFUSED FP32 FMA");
  problem.geometry.filter = {1, 5, 5};
  const auto large = SuggestConvolutions(*handle_, {}, problem, BatchSize(2));
  ASSERT_TRUE(large);
  EXPECT_EQ(Described(*large).front(), "GEMM FP32 FMA");
  EXPECT_EQ(Described(*large).back(), "WINOGRAD_NONFUSED FP32 FMA");
}

TEST_F(CudnnCallsTest, SuggestInTheOrderOfListingIfTheHeuristicsFail) {
  Fake().suggestions[CUDNN_DATA_FLOAT] = {{5, CUDNN_FMA_MATH}};
  Fake().suggestion_status = CUDNN_STATUS_INTERNAL_ERROR;
  const ConvProblem problem = Problem(ConvOp::kForward);
  const auto suggested =
      SuggestConvolutions(*handle_, {}, problem, BatchSize(2));
  ASSERT_TRUE(suggested) << suggested.error().message;
  EXPECT_EQ(Described(*suggested),
            Described(*ListLegacy(*handle_, problem, BatchSize(2))));
}

TEST_F(CudnnCallsTest, GiveLegacyAlgorithmsTheirOperandsAndWorkspace) {
  Fake().workspace = 512;
  const std::map<ConvOp, Algorithm> algorithms = {
      {ConvOp::kForward, {"GEMM", "FMA", Precision::kFp32}},
      {ConvOp::kBackwardData, {"ALGO_1", "FMA", Precision::kFp32}},
      {ConvOp::kBackwardFilter, {"ALGO_3", "FMA", Precision::kFp32}}};
  for (const auto& [op, algorithm] : algorithms) {
    Fake().runs.clear();
    const auto conv =
        PrepareLegacy(*handle_, Problem(op), BatchSize(2), algorithm);
    ASSERT_TRUE(conv) << conv.error().message;
    EXPECT_EQ((*conv)->workspace(), Bytes(512));
    ASSERT_TRUE((*conv)->Run(Args(0.5F, -2), Memory(3), Bytes(1024)));
    ASSERT_THAT(Fake().runs, SizeIs(1));
    const FakeState::Run& run = Fake().runs[0];
    EXPECT_EQ(run.call, Name(op));
    EXPECT_THAT(run.pointers,
                ElementsAre(Memory(0), Memory(1), Memory(2), Memory(3)));
    EXPECT_EQ(run.workspace_size, 512U);
    EXPECT_EQ(run.alpha, 0.5F);
    EXPECT_EQ(run.beta, -2);
  }
  EXPECT_EQ(Fake().runs[0].algorithm, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3);
}

TEST_F(CudnnCallsTest, SayWhyAnAlgorithmIsRefused) {
  Fake().refusals[CUDNN_CONVOLUTION_FWD_ALGO_GEMM] = CUDNN_STATUS_NOT_SUPPORTED;
  const auto conv =
      PrepareLegacy(*handle_, Problem(ConvOp::kForward), BatchSize(2),
                    {"GEMM", "FMA", Precision::kFp32});
  ASSERT_FALSE(conv);
  EXPECT_EQ(conv.error().code, Code::kNotFound);
  EXPECT_THAT(conv.error().message,
              HasSubstr("query of GEMM FMA: CUDNN_STATUS_NOT_SUPPORTED "
                        "(because)"));
}

TEST_F(CudnnCallsTest, PassOnWhatFailsInARun) {
  const auto conv =
      PrepareLegacy(*handle_, Problem(ConvOp::kForward), BatchSize(2),
                    {"GEMM", "FMA", Precision::kFp32});
  ASSERT_TRUE(conv);
  for (const auto& [status, code] :
       {std::pair(CUDNN_STATUS_NOT_SUPPORTED, Code::kUnimplemented),
        std::pair(CUDNN_STATUS_BAD_PARAM, Code::kInvalidArgument),
        std::pair(CUDNN_STATUS_EXECUTION_FAILED, Code::kInternal),
        std::pair(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                  Code::kResourceExhausted)}) {
    Fake().run_status = status;
    EXPECT_EQ((*conv)->Run(Args(), nullptr, Bytes()).error().code, code);
  }
}

TEST_F(CudnnCallsTest, CallAProblemThatNothingSolvesUnimplemented) {
  for (int i = 0; i < 8; ++i) {
    Fake().refusals[i] = CUDNN_STATUS_NOT_SUPPORTED;
  }
  const auto listed = ListConvolutions(*handle_, {true, true},
                                       Problem(ConvOp::kForward), BatchSize(2));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::kUnimplemented);
}

TEST_F(CudnnCallsTest, ListEnginesOnceByNamesThatPrepareTakes) {
  Fake().engines = {3, 18};
  Fake().rounding_engine = 18;
  Fake().graph_workspace = 100;
  const ConvProblem tf32 = Problem(ConvOp::kForward, Precision::kTf32);
  const auto listed = ListGraph(*handle_, tf32, BatchSize(4));
  ASSERT_TRUE(listed) << listed.error().message;
  std::vector<std::string> names;
  for (const Candidate& c : *listed) {
    names.push_back(
        fmt::format("{} {}", c.algorithm.name, Name(c.algorithm.precision)));
    EXPECT_EQ(c.workspace, Bytes(100));
    const auto conv =
        PrepareConvolution(*handle_, tf32, BatchSize(4), c.algorithm);
    ASSERT_TRUE(conv) << conv.error().message;
    EXPECT_EQ((*conv)->workspace(), c.workspace);
  }
  EXPECT_THAT(names, ElementsAre("eng3 FP32", "eng3-k2=4-k7=1 FP32",
                                 "eng18 TF32", "eng18-k2=4-k7=1 TF32"));
  // A request for FP32 gets no engine that rounds.
  const auto exact =
      ListGraph(*handle_, Problem(ConvOp::kForward), BatchSize(4));
  ASSERT_TRUE(exact);
  EXPECT_THAT(*exact, SizeIs(2));
  EXPECT_EQ(PrepareGraph(*handle_, Problem(ConvOp::kForward), BatchSize(4),
                         {"eng18", "", Precision::kFp32})
                .error()
                .code,
            Code::kNotFound);
}

TEST_F(CudnnCallsTest, GiveEnginesTheirOperandsByTheirRole) {
  Fake().engines = {3};
  Fake().graph_workspace = 256;
  const std::map<ConvOp, std::vector<int>> roles = {
      // Which of a, b, out are the input, the filter and the output.
      {ConvOp::kForward, {0, 1, 2}},
      {ConvOp::kBackwardData, {2, 1, 0}},
      {ConvOp::kBackwardFilter, {0, 2, 1}}};
  for (const auto& [op, role] : roles) {
    Fake().runs.clear();
    const auto conv = Engine(op);
    ASSERT_TRUE(conv) << conv.error().message;
    ASSERT_TRUE((*conv)->Run(Args(), Memory(3), Bytes(256)));
    ASSERT_THAT(Fake().runs, SizeIs(1));
    EXPECT_THAT(Fake().runs[0].pointers,
                ElementsAre(Memory(role[0]), Memory(role[1]), Memory(role[2]),
                            Memory(3)));
    EXPECT_EQ(Fake().runs[0].algorithm, 3);
  }
}

TEST_F(CudnnCallsTest, LeaveScalingToEnginesThatSupportIt) {
  Fake().engines = {3};
  for (const ConvOp op : kConvOps) {
    const auto conv = Engine(op);
    ASSERT_TRUE(conv);
    for (const auto& [alpha, beta] :
         {std::pair(1.0F, 1.0F), std::pair(0.5F, -0.75F),
          std::pair(2.0F, 0.0F)}) {
      Fake().runs.clear();
      ASSERT_TRUE((*conv)->Run(Args(alpha, beta), nullptr, Bytes()));
      ASSERT_THAT(Fake().runs, SizeIs(1));
      EXPECT_EQ(Fake().runs[0].call, "execute");
      EXPECT_EQ(Fake().runs[0].alpha, alpha);
      EXPECT_EQ(Fake().runs[0].beta, beta);
    }
  }
}

TEST_F(CudnnCallsTest, ScaleTheOutputOfEnginesThatDoNot) {
  Fake().engines = {3};
  Fake().ignoring_beta = {3};
  const auto conv = Engine(ConvOp::kForward);
  ASSERT_TRUE(conv);
  ASSERT_TRUE((*conv)->Run(Args(0.5F, 0), nullptr, Bytes()));
  ASSERT_THAT(Fake().runs, SizeIs(2));
  EXPECT_EQ(Fake().runs[0].call, "execute");
  EXPECT_EQ(Fake().runs[0].alpha, 1);
  EXPECT_EQ(Fake().runs[1].call, "scale");
  EXPECT_THAT(Fake().runs[1].pointers, ElementsAre(Memory(2)));
  EXPECT_EQ(Fake().runs[1].alpha, 0.5F);
}

TEST_F(CudnnCallsTest, AddFilterGradientsOfEnginesThatDoNotAccumulate) {
  Fake().engines = {3};
  Fake().engines_accumulate = false;
  Fake().graph_workspace = 100;
  const auto conv = Engine(ConvOp::kBackwardFilter);
  ASSERT_TRUE(conv) << conv.error().message;
  const Bytes filter(16 * 8 * 9 * 4);
  ASSERT_EQ((*conv)->workspace(), Bytes(256) + filter);
  ASSERT_TRUE((*conv)->Run(Args(0.5F, 1), Memory(3), (*conv)->workspace()));
  ASSERT_THAT(Fake().runs, SizeIs(2));
  void* const addend = static_cast<char*>(Memory(3)) + 256;
  EXPECT_THAT(Fake().runs[0].pointers,
              ElementsAre(Memory(0), addend, Memory(1), Memory(3)));
  EXPECT_EQ(Fake().runs[1].call, "add");
  EXPECT_THAT(Fake().runs[1].pointers, ElementsAre(addend, Memory(2)));
  EXPECT_EQ(Fake().runs[1].alpha, 0.5F);
  EXPECT_EQ(Fake().runs[1].beta, 1);
}

TEST_F(CudnnCallsTest, SubstituteALegacyAlgorithmForOtherAccumulation) {
  Fake().engines = {3};
  Fake().engines_accumulate = false;
  Fake().graph_workspace = 100;
  Fake().workspace = 1000;
  for (const ConvOp op : {ConvOp::kForward, ConvOp::kBackwardData}) {
    Fake().runs.clear();
    const auto conv = Engine(op);
    ASSERT_TRUE(conv);
    EXPECT_EQ((*conv)->workspace(), Bytes(1000));
    ASSERT_TRUE((*conv)->Run(Args(0.5F, 1), Memory(3), Bytes(1000)));
    ASSERT_THAT(Fake().runs, SizeIs(1));
    EXPECT_EQ(Fake().runs[0].call, Name(op));
    EXPECT_EQ(Fake().runs[0].beta, 1);
  }
}

TEST_F(CudnnCallsTest, LetNoEngineReadMisalignedOperands) {
  Fake().engines = {3};
  const auto conv = Engine(ConvOp::kForward);
  ASSERT_TRUE(conv);
  ConvArgs args = Args();
  args.a = memory_ + 8;
  const Status ran = (*conv)->Run(args, nullptr, Bytes());
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, Code::kInvalidArgument);
  EXPECT_THAT(ran.error().message, HasSubstr("16 bytes"));
  EXPECT_THAT(Fake().runs, IsEmpty());
}

TEST_F(CudnnCallsTest, AreMadeInTheContextAndLeaveTheCallersCurrent) {
  Fake().current = {reinterpret_cast<CUcontext>(0x5)};
  {
    const auto context = GpuContext::Create(driver_, 0, "the GPU", 0);
    ASSERT_TRUE(context) << context.error().message;
    EXPECT_EQ((*context)->sms(), 132);
    const auto handle = CudnnHandle::Create(api_, **context);
    ASSERT_TRUE(handle);
    const auto conv =
        PrepareLegacy(**handle, Problem(ConvOp::kForward), BatchSize(2),
                      {"GEMM", "FMA", Precision::kFp32});
    ASSERT_TRUE(conv);
    ASSERT_TRUE((*conv)->Run(Args(), nullptr, Bytes()));
    EXPECT_EQ(Fake().runs[0].context, reinterpret_cast<CUcontext>(0x77));
    EXPECT_THAT(Fake().current, ElementsAre(reinterpret_cast<CUcontext>(0x5)));
  }
  EXPECT_EQ(Fake().freed, 1);
  Fake().current.clear();
}

TEST_F(CudnnCallsTest, ReportALostContextFromThenOn) {
  {
    const auto context = GpuContext::Create(driver_, 0, "the GPU", 0);
    ASSERT_TRUE(context);
    const auto handle = CudnnHandle::Create(api_, **context);
    ASSERT_TRUE(handle);
    const auto conv =
        PrepareLegacy(**handle, Problem(ConvOp::kForward), BatchSize(2),
                      {"GEMM", "FMA", Precision::kFp32});
    ASSERT_TRUE(conv);
    // cuDNN says only that it failed; the driver knows why.
    Fake().run_status = CUDNN_STATUS_EXECUTION_FAILED;
    Fake().next_result = CUDA_ERROR_ILLEGAL_ADDRESS;
    const Status ran = (*conv)->Run(Args(), nullptr, Bytes());
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, Code::kDataLoss);
    EXPECT_THAT(ran.error().message,
                HasSubstr("the GPU is lost to this process, which must be "
                          "restarted: cuStreamQuery: "
                          "CUDA_ERROR_ILLEGAL_ADDRESS"));
    Fake().run_status = CUDNN_STATUS_SUCCESS;
    Fake().next_result = CUDA_SUCCESS;
    EXPECT_EQ((*conv)->Run(Args(), nullptr, Bytes()).error(), ran.error());
    EXPECT_EQ(
        ListLegacy(**handle, Problem(ConvOp::kForward), BatchSize(2)).error(),
        ran.error());
    EXPECT_THAT(Fake().runs, SizeIs(1));
  }
  // The handle can no longer be destroyed and lives until the process ends.
  EXPECT_EQ(Fake().alive, 1);
  EXPECT_EQ(Fake().freed, 0);
  Fake().alive = 0;
}

TEST_F(CudnnCallsTest, TellOtherFailuresApart) {
  Fake().next_result = CUDA_ERROR_OUT_OF_MEMORY;
  auto context = GpuContext::Create(driver_, 0, "the GPU", 0);
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code, Code::kResourceExhausted);
  EXPECT_THAT(context.error().message,
              HasSubstr("cuDevicePrimaryCtxRetain: CUDA error 2"));
  Fake().next_result = CUDA_ERROR_DEVICE_UNAVAILABLE;
  context = GpuContext::Create(driver_, 0, "the GPU", 0);
  EXPECT_EQ(context.error().code, Code::kUnavailable);
}

TEST_F(CudnnCallsTest, RefuseSlicesIfTheDriverDoesNotSupportThem) {
  const auto context = GpuContext::Create(driver_, 0, "the GPU", 32);
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code, Code::kUnimplemented);
  EXPECT_THAT(context.error().message, HasSubstr("CUDA 12.4"));
}

}  // namespace
}  // namespace ucudnn::cudnn
