#include "device/cudnn/branches.h"

#include <algorithm>
#include <utility>

#include "device/cudnn/branch_stream.h"
#include "device/cudnn/flat_tensor.h"
#include "device/cudnn/legacy/algorithms.h"
#include "device/cudnn/legacy/legacy.h"
#include "device/cudnn/shapes.h"
#include "device/image_strides.h"
#include "device/reference_element.h"
#include "device/run_checks.h"

namespace ucudnn::cudnn {
namespace {

constexpr Bytes kAlignment = 256_B;

// The images of each branch.
struct Halves {
  BatchSize first;
  BatchSize second;
};
Halves HalvesOf(BatchSize batch) {
  const BatchSize second(batch.count() / 2);
  return {BatchSize(batch.count() - second.count()), second};
}

// The workspace: the first branch's lies at 0.
struct Room {
  Bytes second;    // where the second branch's is
  Bytes gradient;  // where the second branch's gradient is, if it has one
  Bytes size;
};
Room RoomOf(const ConvProblem& problem, Bytes first, Bytes second) {
  Room room;
  room.second = RoundUp(first, kAlignment);
  room.gradient = RoundUp(room.second + second, kAlignment);
  room.size = room.gradient;
  if (problem.op == ConvOp::kBackwardFilter) {
    const Bytes gradient(ElementsOf(problem, BatchSize(1)).out *
                         ElementBytes(problem.precision));
    room.size = RoundUp(room.gradient + gradient, kAlignment);
  }
  return room;
}

class BranchedConvolution final : public Convolution {
 public:
  static Result<std::unique_ptr<Convolution>> Create(CudnnHandle& handle,
                                                     const ConvProblem& problem,
                                                     BatchSize batch,
                                                     const Algorithm& each) {
    const Halves halves = HalvesOf(batch);
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
    UCUDNN_ASSIGN_OR_RETURN(BranchStream * branch, handle.branch_stream());
    std::unique_ptr<BranchedConvolution> made(
        new BranchedConvolution(handle, *branch));
    UCUDNN_ASSIGN_OR_RETURN(made->first_,
                            PrepareLegacy(handle, problem, halves.first, each));
    UCUDNN_ASSIGN_OR_RETURN(
        made->second_,
        PrepareLegacy(branch->handle(), problem, halves.second, each));
    made->first_images_ = halves.first.count();
    made->strides_ = PackedStrides(problem);
    made->room_ =
        RoomOf(problem, made->first_->workspace(), made->second_->workspace());
    if (problem.op == ConvOp::kBackwardFilter) {
      UCUDNN_ASSIGN_OR_RETURN(
          made->gradient_,
          FlatTensor::Create(handle, ElementsOf(problem, batch).out,
                             DataType(problem.precision)));
    }
    return made;
  }

  Bytes workspace() const override { return room_.size; }

  Status Run(const ConvArgs& args, void* workspace,
             Bytes workspace_size) override {
    UCUDNN_RETURN_IF_ERROR(
        CheckRun(args, workspace, workspace_size, room_.size));
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    const auto at = [&](Bytes offset) -> void* {
      return static_cast<char*>(workspace) + offset.count();
    };
    ConvArgs rest = ArgsFrom(args, strides_, first_images_);
    if (gradient_ != nullptr) {
      rest.out = at(room_.gradient);
      rest.beta = 0;
    }
    UCUDNN_RETURN_IF_ERROR(branch_.Fork());
    // First what fails without a trace in a gradient that is added to.
    Status enqueued =
        second_->Run(rest, at(room_.second), second_->workspace());
    if (enqueued) {
      enqueued = first_->Run(args, workspace, first_->workspace());
    }
    // Whatever happened: a capture ends only with its branches joined.
    UCUDNN_RETURN_IF_ERROR(branch_.Join());
    if (!enqueued || gradient_ == nullptr) return enqueued;
    return gradient_->Add(1, rest.out, 1, args.out);
  }

 private:
  BranchedConvolution(CudnnHandle& handle, BranchStream& branch)
      : handle_(handle), branch_(branch) {}

  CudnnHandle& handle_;
  BranchStream& branch_;
  std::unique_ptr<Convolution> first_;
  std::unique_ptr<Convolution> second_;
  std::unique_ptr<FlatTensor> gradient_;  // the filter's, if it is summed
  std::int64_t first_images_ = 0;
  ImageStrides strides_;
  Room room_;
};

}  // namespace

Result<std::vector<Candidate>> ListBranched(CudnnHandle& handle,
                                            const ConvProblem& problem,
                                            BatchSize batch) {
  std::vector<Candidate> branched;
  if (batch < BatchSize(2)) return branched;
  const Halves halves = HalvesOf(batch);
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Candidate> firsts,
                          ListLegacy(handle, problem, halves.first));
  std::vector<Candidate> seconds = firsts;
  if (halves.first != halves.second) {
    UCUDNN_ASSIGN_OR_RETURN(seconds,
                            ListLegacy(handle, problem, halves.second));
  }
  for (const Candidate& first : firsts) {
    const auto second =
        std::ranges::find(seconds, first.algorithm, &Candidate::algorithm);
    if (second == seconds.end()) continue;
    branched.push_back(
        {InTwoBranches(first.algorithm),
         RoomOf(problem, first.workspace, second->workspace).size});
  }
  return branched;
}

Result<std::unique_ptr<Convolution>> PrepareBranched(
    CudnnHandle& handle, const ConvProblem& problem, BatchSize batch,
    const Algorithm& algorithm) {
  const auto each = EachBranch(algorithm);
  if (!each || batch < BatchSize(2)) {
    return Fail(Code::kNotFound, "{} at batch {}: {} has no two branches",
                ToString(problem), batch.count(), algorithm.name);
  }
  return BranchedConvolution::Create(handle, problem, batch, *each);
}

}  // namespace ucudnn::cudnn
