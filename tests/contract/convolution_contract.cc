// The device contract for convolutions.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "device/accuracy.h"
#include "device/rounding.h"
#include "tests/contract/device_contract.h"
#include "tests/contract/guarded_buffer.h"
#include "tests/contract/opened_devices.h"
#include "tests/support/reference_conv.h"

namespace ucudnn::test {
namespace {

using ::testing::HasSubstr;

// The reference of a convolution with the inputs of Inputs(); computed once,
// whatever the precision, since the inputs are exact in all.
struct Expected {
  std::vector<double> a;
  std::vector<double> b;
  ReferenceResult result;
};

const Expected& ExpectedOf(ConvProblem problem, BatchSize batch) {
  static std::map<std::pair<std::string, BatchSize>, Expected> known;
  problem.precision = Precision::kFp32;
  const auto [entry, is_new] = known.try_emplace({ToString(problem), batch});
  Expected& expected = entry->second;
  if (is_new) {
    const OperandSizes sizes = SizesOf(problem, batch);
    expected.a = ExactValues(sizes.a, 1);
    expected.b = ExactValues(sizes.b, 2);
    expected.result = ReferenceConv(problem, batch, expected.a, expected.b);
  }
  return expected;
}

// Expects `got` to be alpha * op(a, b) + beta * old within `tolerance`; `old`
// may be empty if beta is 0.
void ExpectClose(const std::vector<double>& got, const ReferenceResult& want,
                 float alpha, float beta, const std::vector<double>& old,
                 double tolerance) {
  ASSERT_EQ(got.size(), want.out.size());
  const double allowed =
      tolerance * (std::fabs(alpha) * want.scale + std::fabs(beta));
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected =
        alpha * want.out[i] + (beta == 0 ? 0 : beta * old[i]);
    if (std::fabs(got[i] - expected) <= allowed) continue;  // false for NaN
    if (++wrong <= 3) {
      ADD_FAILURE() << "element " << i << " of " << got.size() << " is "
                    << got[i] << " instead of " << expected << " within "
                    << allowed;
    }
  }
  EXPECT_LE(wrong, 3) << "elements in all are wrong";
}

// The operands of one convolution on the device.
struct OnDevice {
  GuardedBuffer a;
  GuardedBuffer b;
};

Result<OnDevice> UploadInputs(Device& device, const ConvProblem& problem,
                              const Expected& expected) {
  OnDevice result;
  UCUDNN_ASSIGN_OR_RETURN(
      result.a,
      GuardedBuffer::Holding(device, Encode(expected.a, problem.precision)));
  UCUDNN_ASSIGN_OR_RETURN(
      result.b,
      GuardedBuffer::Holding(device, Encode(expected.b, problem.precision)));
  return result;
}

std::string Described(const Candidate& c) {
  return fmt::format("{} (math '{}', {}, {} bytes)", c.algorithm.name,
                     c.algorithm.math, Name(c.algorithm.precision),
                     c.workspace.count());
}

Bytes BytesOf(const ConvProblem& problem, std::int64_t elements) {
  return Bytes(elements * ElementBytes(problem.precision));
}

}  // namespace

void ConvolutionContractTest::SetUp() {
  auto& opened = OpenedFor(GetParam().contract);
  if (!opened && opened.error().code == Code::kUnavailable) {
    GTEST_SKIP() << opened.error().message;
  }
  ASSERT_OK(opened);
  device_ = opened->get();
  auto listed = device_->ListAlgorithms(problem(), batch());
  if (!listed && listed.error().code == Code::kUnimplemented &&
      !GetParam().contract.supports_all) {
    device_ = nullptr;
    GTEST_SKIP() << listed.error().message;
  }
  ASSERT_OK(listed);
  candidates_ = *listed;
  ASSERT_FALSE(candidates_.empty());
}

void ConvolutionContractTest::TearDownTestSuite() { OpenedDevices().clear(); }

TEST_P(ConvolutionContractTest, ListsTheSameAlgorithmsEachTime) {
  std::set<Algorithm> algorithms;
  for (const Candidate& c : candidates_) {
    EXPECT_NE(c.algorithm.name, "");
    EXPECT_TRUE(algorithms.insert(c.algorithm).second)
        << Described(c) << " is listed twice";
    EXPECT_GE(c.workspace, Bytes()) << Described(c);
    EXPECT_TRUE(Admits(problem().precision, c.algorithm.precision))
        << Described(c);
  }
  const auto again = device_->ListAlgorithms(problem(), batch());
  ASSERT_OK(again);
  ASSERT_EQ(again->size(), candidates_.size());
  for (std::size_t i = 0; i < again->size(); ++i) {
    EXPECT_EQ((*again)[i].algorithm, candidates_[i].algorithm);
    EXPECT_EQ((*again)[i].workspace, candidates_[i].workspace);
  }
}

TEST_P(ConvolutionContractTest, SuggestsWhatItLists) {
  const auto suggested = device_->SuggestAlgorithms(problem(), batch());
  ASSERT_OK(suggested);
  const auto again = device_->SuggestAlgorithms(problem(), batch());
  ASSERT_OK(again);
  const auto all = [](const std::vector<Candidate>& candidates) {
    std::multiset<std::pair<Algorithm, Bytes>> set;
    for (const Candidate& c : candidates) set.emplace(c.algorithm, c.workspace);
    return set;
  };
  EXPECT_EQ(all(*suggested), all(candidates_));
  ASSERT_EQ(again->size(), suggested->size());
  for (std::size_t i = 0; i < again->size(); ++i) {
    EXPECT_EQ((*again)[i].algorithm, (*suggested)[i].algorithm);
  }
}

TEST_P(ConvolutionContractTest, SuggestsWithinALimitOrNamesTheLeast) {
  std::set<Bytes> workspaces;
  for (const Candidate& c : candidates_) workspaces.insert(c.workspace);
  const Bytes least = *workspaces.begin();
  AlgorithmErrors errors;
  const auto suggest = [&](Bytes limit) {
    return SuggestWithin(*device_, problem(), batch(), limit, kDefaultMaxError,
                         &errors);
  };
  for (const Bytes limit : {least, *workspaces.rbegin()}) {
    const auto suggestion = suggest(limit);
    ASSERT_OK(suggestion);
    SCOPED_TRACE(Described(*suggestion));
    EXPECT_LE(suggestion->workspace, limit);
    EXPECT_TRUE(std::any_of(candidates_.begin(), candidates_.end(),
                            [&](const Candidate& c) {
                              return c.algorithm == suggestion->algorithm &&
                                     c.workspace == suggestion->workspace;
                            }));
    const auto conv =
        device_->Prepare(problem(), batch(), suggestion->algorithm);
    ASSERT_OK(conv);
    EXPECT_EQ((*conv)->workspace(), suggestion->workspace);
  }
  if (least == Bytes()) return;
  const auto none = suggest(least - 1_B);
  EXPECT_CODE(Code::kFailedPrecondition, none);
  EXPECT_THAT(none.error().message, HasSubstr(FormatBytes(least)));
}

TEST_P(ConvolutionContractTest, ListsManyBatchesAsOneByOne) {
  const std::vector<BatchSize> batches = {batch(), BatchSize(1), BatchSize(2),
                                          batch()};
  const auto lists = device_->ListAlgorithmsOfEach(problem(), batches);
  ASSERT_EQ(lists.size(), batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto alone = device_->ListAlgorithms(problem(), batches[i]);
    ASSERT_EQ(lists[i].has_value(), alone.has_value());
    if (!alone) {
      EXPECT_EQ(lists[i].error().code, alone.error().code);
      continue;
    }
    ASSERT_EQ(lists[i]->size(), alone->size());
    for (std::size_t j = 0; j < alone->size(); ++j) {
      EXPECT_EQ((*lists[i])[j].algorithm, (*alone)[j].algorithm);
      EXPECT_EQ((*lists[i])[j].workspace, (*alone)[j].workspace);
    }
  }
}

TEST_P(ConvolutionContractTest, PreparesWhatItListsWithTheListedWorkspace) {
  for (const Candidate& c : candidates_) {
    const auto conv = device_->Prepare(problem(), batch(), c.algorithm);
    ASSERT_OK(conv);
    EXPECT_EQ((*conv)->workspace(), c.workspace) << Described(c);
  }
}

TEST_P(ConvolutionContractTest, DoesNotFindWhatItDoesNotList) {
  Algorithm unknown = candidates_[0].algorithm;
  unknown.name = "no_such_algorithm";
  EXPECT_CODE(Code::kNotFound, device_->Prepare(problem(), batch(), unknown));
  unknown = candidates_[0].algorithm;
  unknown.math = "no_such_math";
  EXPECT_CODE(Code::kNotFound, device_->Prepare(problem(), batch(), unknown));
}

TEST_P(ConvolutionContractTest, RefusesASmallerWorkspace) {
  const OperandSizes sizes = SizesOf(problem(), batch());
  auto memory = device_->Allocate(
      BytesOf(problem(), std::max({sizes.a, sizes.b, sizes.out})));
  ASSERT_OK(memory);
  const ConvArgs args = {memory->data(), memory->data(), memory->data()};
  for (const Candidate& c : candidates_) {
    if (c.workspace == Bytes()) continue;
    auto conv = device_->Prepare(problem(), batch(), c.algorithm);
    ASSERT_OK(conv);
    auto workspace = device_->Allocate(c.workspace);
    ASSERT_OK(workspace);
    SCOPED_TRACE(Described(c));
    EXPECT_CODE(Code::kInvalidArgument,
                (*conv)->Run(args, workspace->data(), c.workspace - 1_B));
    EXPECT_CODE(Code::kInvalidArgument, (*conv)->Run(args, nullptr, Bytes()));
  }
}

TEST_P(ConvolutionContractTest, ComputesInExactlyTheListedWorkspace) {
  if (!GetParam().contract.computes) GTEST_SKIP() << "it does not compute";
  const Expected& expected = ExpectedOf(problem(), batch());
  auto inputs = UploadInputs(*device_, problem(), expected);
  ASSERT_OK(inputs);
  const Bytes out_size =
      BytesOf(problem(), static_cast<std::int64_t>(expected.result.out.size()));
  for (const Candidate& c : candidates_) {
    SCOPED_TRACE(Described(c));
    auto conv = device_->Prepare(problem(), batch(), c.algorithm);
    ASSERT_OK(conv);
    auto workspace = GuardedBuffer::Make(*device_, c.workspace, kNanByte);
    ASSERT_OK(workspace);
    auto out = GuardedBuffer::Make(*device_, out_size, kNanByte);
    ASSERT_OK(out);
    const ConvArgs args = {inputs->a.data(), inputs->b.data(), out->data()};
    const auto time = device_->Time([&] {
      return (*conv)->Run(args, workspace->data(), workspace->size());
    });
    ASSERT_OK(time);
    EXPECT_GT(time->count(), 0);
    ASSERT_OK(device_->Synchronize());
    const auto bytes = out->Read();
    ASSERT_OK(bytes);
    ExpectClose(Decode(*bytes, problem().precision), expected.result, 1, 0, {},
                ToleranceOf(c.algorithm, problem().geometry));
    EXPECT_EQ(out->BrokenGuardBytes().value(), 0) << "around the result";
    EXPECT_EQ(workspace->BrokenGuardBytes().value(), 0)
        << "around the workspace";
  }
  const auto a = inputs->a.Read();
  const auto b = inputs->b.Read();
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(*a, Encode(expected.a, problem().precision)) << "a was changed";
  EXPECT_EQ(*b, Encode(expected.b, problem().precision)) << "b was changed";
}

TEST_P(ConvolutionContractTest, ScalesAndAdds) {
  if (!GetParam().contract.computes) GTEST_SKIP() << "it does not compute";
  const Expected& expected = ExpectedOf(problem(), batch());
  auto inputs = UploadInputs(*device_, problem(), expected);
  ASSERT_OK(inputs);
  const auto elements = static_cast<std::int64_t>(expected.result.out.size());
  const std::vector<double> old = ExactValues(elements, 3);
  const std::vector<unsigned char> old_bytes = Encode(old, problem().precision);
  for (const Candidate& c : candidates_) {
    SCOPED_TRACE(Described(c));
    auto conv = device_->Prepare(problem(), batch(), c.algorithm);
    ASSERT_OK(conv);
    auto workspace = GuardedBuffer::Make(*device_, c.workspace, kNanByte);
    ASSERT_OK(workspace);
    for (const auto& [alpha, beta] :
         {std::pair(1.0F, 1.0F), std::pair(0.5F, -0.75F),
          std::pair(-1.5F, 0.0F)}) {
      SCOPED_TRACE(fmt::format("alpha {}, beta {}", alpha, beta));
      auto out = beta == 0
                     ? GuardedBuffer::Make(
                           *device_, BytesOf(problem(), elements), kNanByte)
                     : GuardedBuffer::Holding(*device_, old_bytes);
      ASSERT_OK(out);
      ASSERT_OK((*conv)->Run(
          {inputs->a.data(), inputs->b.data(), out->data(), alpha, beta},
          workspace->data(), workspace->size()));
      ASSERT_OK(device_->Synchronize());
      const auto bytes = out->Read();
      ASSERT_OK(bytes);
      ExpectClose(Decode(*bytes, problem().precision), expected.result, alpha,
                  beta, old, ToleranceOf(c.algorithm, problem().geometry));
      EXPECT_EQ(out->BrokenGuardBytes().value(), 0) << "around the result";
    }
    EXPECT_EQ(workspace->BrokenGuardBytes().value(), 0)
        << "around the workspace";
  }
}

// Runs as a divided mini-batch does: each micro-batch is a pointer offset into
// the tensors; the filter gradient takes the caller's beta first, then 1.
TEST_P(ConvolutionContractTest, ComputesTheSameInMicroBatches) {
  if (!GetParam().contract.computes) GTEST_SKIP() << "it does not compute";
  constexpr float kAlpha = 0.5F;
  constexpr float kBeta = -0.75F;
  const BatchSize whole = std::max(batch(), BatchSize(2));
  const Expected& expected = ExpectedOf(problem(), whole);
  auto inputs = UploadInputs(*device_, problem(), expected);
  ASSERT_OK(inputs);
  const std::vector<double> old =
      ExactValues(static_cast<std::int64_t>(expected.result.out.size()), 3);
  const std::vector<unsigned char> old_bytes = Encode(old, problem().precision);
  const BatchSize first(whole.count() / 2);
  const BatchSize second = whole - first;
  const auto listed = device_->ListAlgorithms(problem(), first);
  ASSERT_OK(listed);
  const auto rest = device_->ListAlgorithms(problem(), second);
  ASSERT_OK(rest);
  const bool filter = problem().op == ConvOp::kBackwardFilter;
  const OperandSizes one = SizesOf(problem(), first);
  const Bytes a_step = BytesOf(problem(), one.a);
  const Bytes b_step = BytesOf(problem(), filter ? one.b : 0);
  const Bytes out_step = BytesOf(problem(), filter ? 0 : one.out);
  for (const Candidate& c : *listed) {
    SCOPED_TRACE(Described(c));
    auto same = std::find_if(rest->begin(), rest->end(), [&](const auto& r) {
      return r.algorithm == c.algorithm;
    });
    const Candidate& d = same == rest->end() ? rest->front() : *same;
    auto head = device_->Prepare(problem(), first, c.algorithm);
    ASSERT_OK(head);
    auto tail = device_->Prepare(problem(), second, d.algorithm);
    ASSERT_OK(tail);
    auto workspace = GuardedBuffer::Make(
        *device_, std::max(c.workspace, d.workspace), kNanByte);
    ASSERT_OK(workspace);
    auto out = GuardedBuffer::Holding(*device_, old_bytes);
    ASSERT_OK(out);
    const auto offset = [](const GuardedBuffer& buffer, Bytes step) {
      return static_cast<unsigned char*>(buffer.data()) + step.count();
    };
    ASSERT_OK((*head)->Run(
        {inputs->a.data(), inputs->b.data(), out->data(), kAlpha, kBeta},
        workspace->data(), c.workspace));
    ASSERT_OK(
        (*tail)->Run({offset(inputs->a, a_step), offset(inputs->b, b_step),
                      offset(*out, out_step), kAlpha, filter ? 1.0F : kBeta},
                     workspace->data(), d.workspace));
    ASSERT_OK(device_->Synchronize());
    const auto bytes = out->Read();
    ASSERT_OK(bytes);
    ExpectClose(Decode(*bytes, problem().precision), expected.result, kAlpha,
                kBeta, old,
                std::max(ToleranceOf(c.algorithm, problem().geometry),
                         ToleranceOf(d.algorithm, problem().geometry)));
    EXPECT_EQ(out->BrokenGuardBytes().value(), 0) << "around the result";
    EXPECT_EQ(workspace->BrokenGuardBytes().value(), 0)
        << "around the workspace";
  }
}

}  // namespace ucudnn::test
