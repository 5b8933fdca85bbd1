#include "device/cudnn/legacy/legacy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "device/cudnn/descriptor.h"
#include "device/cudnn/graph/name.h"
#include "device/cudnn/legacy/algorithms.h"
#include "device/cudnn/legacy/queries.h"
#include "device/cudnn/shapes.h"
#include "device/run_checks.h"

namespace ucudnn::cudnn {
namespace {

using Ints = std::array<int, 5>;

template <std::size_t n>
Ints ToInts(const std::array<std::int64_t, n>& values) {
  Ints ints = {};
  for (std::size_t i = 0; i < n; ++i) ints[i] = static_cast<int>(values[i]);
  return ints;
}

Result<Owned<cudnnTensorDescriptor_t>> Tensor(CudnnHandle& handle,
                                              const TensorShape& shape,
                                              cudnnDataType_t type) {
  const auto rank = static_cast<std::size_t>(shape.rank);
  const Ints dims = ToInts(shape.dims);
  const Ints strides = ToInts(shape.strides);
  return CreateTensor(handle, type, std::span(dims).first(rank),
                      std::span(strides).first(rank));
}

Result<Owned<cudnnFilterDescriptor_t>> Filter(CudnnHandle& handle,
                                              const TensorShape& shape,
                                              cudnnDataType_t type,
                                              Layout layout) {
  const CudnnApi& api = handle.api();
  UCUDNN_ASSIGN_OR_RETURN(
      auto descriptor,
      Create(handle, api.CreateFilterDescriptor, api.DestroyFilterDescriptor));
  const Ints dims = ToInts(shape.dims);
  UCUDNN_RETURN_IF_ERROR(handle.Call(
      api.SetFilterNdDescriptor, descriptor.get(), type,
      layout == Layout::kNchw ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC,
      shape.rank, dims.data()));
  return descriptor;
}

Result<Owned<cudnnConvolutionDescriptor_t>> ConvolutionDescriptor(
    CudnnHandle& handle, const ConvShapes& shapes, std::int64_t groups,
    const LegacyMath& math) {
  const CudnnApi& api = handle.api();
  UCUDNN_ASSIGN_OR_RETURN(auto descriptor,
                          Create(handle, api.CreateConvolutionDescriptor,
                                 api.DestroyConvolutionDescriptor));
  const Ints padding = ToInts(shapes.padding);
  const Ints stride = ToInts(shapes.stride);
  const Ints dilation = ToInts(shapes.dilation);
  UCUDNN_RETURN_IF_ERROR(handle.Call(
      api.SetConvolutionNdDescriptor, descriptor.get(), shapes.spatial_dims,
      padding.data(), stride.data(), dilation.data(), CUDNN_CROSS_CORRELATION,
      ComputeType(math.precision)));
  UCUDNN_RETURN_IF_ERROR(handle.Call(api.SetConvolutionGroupCount,
                                     descriptor.get(),
                                     static_cast<int>(groups)));
  UCUDNN_RETURN_IF_ERROR(
      handle.Call(api.SetConvolutionMathType, descriptor.get(), math.type));
  return descriptor;
}

// The tensors of a problem and batch, which all algorithms share.
struct Operands {
  ConvOp op;
  Owned<cudnnTensorDescriptor_t> input;
  Owned<cudnnFilterDescriptor_t> filter;
  Owned<cudnnTensorDescriptor_t> output;
};

Result<Operands> MakeOperands(CudnnHandle& handle, const ConvProblem& problem,
                              const ConvShapes& shapes) {
  const cudnnDataType_t type = DataType(problem.precision);
  UCUDNN_ASSIGN_OR_RETURN(auto input, Tensor(handle, shapes.input, type));
  UCUDNN_ASSIGN_OR_RETURN(auto filter,
                          Filter(handle, shapes.filter, type, problem.layout));
  UCUDNN_ASSIGN_OR_RETURN(auto output, Tensor(handle, shapes.output, type));
  return Operands{problem.op, std::move(input), std::move(filter),
                  std::move(output)};
}

LegacyDescriptors Describe(const Operands& operands,
                           cudnnConvolutionDescriptor_t convolution) {
  return {operands.op, operands.input.get(), operands.filter.get(), convolution,
          operands.output.get()};
}

class LegacyConvolution : public Convolution {
 public:
  LegacyConvolution(CudnnHandle& handle, Operands operands,
                    Owned<cudnnConvolutionDescriptor_t> convolution,
                    int algorithm, Bytes workspace)
      : handle_(handle),
        operands_(std::move(operands)),
        convolution_(std::move(convolution)),
        algorithm_(algorithm),
        workspace_(workspace) {}

  Bytes workspace() const override { return workspace_; }

  Status Run(const ConvArgs& args, void* workspace,
             Bytes workspace_size) override {
    UCUDNN_RETURN_IF_ERROR(
        CheckRun(args, workspace, workspace_size, workspace_));
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    const CudnnApi& api = handle_.api();
    // cuDNN gets exactly the workspace it asked for, so that it runs what was
    // measured, whatever the arena's size.
    void* const scratch = workspace_ == Bytes() ? nullptr : workspace;
    const auto size = static_cast<std::size_t>(workspace_.count());
    switch (operands_.op) {
      case ConvOp::kForward:
        return handle_.Call(api.ConvolutionForward, handle_.get(), &args.alpha,
                            operands_.input.get(), args.a,
                            operands_.filter.get(), args.b, convolution_.get(),
                            static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_),
                            scratch, size, &args.beta, operands_.output.get(),
                            args.out);
      case ConvOp::kBackwardData:
        return handle_.Call(
            api.ConvolutionBackwardData, handle_.get(), &args.alpha,
            operands_.filter.get(), args.b, operands_.output.get(), args.a,
            convolution_.get(),
            static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), scratch,
            size, &args.beta, operands_.input.get(), args.out);
      case ConvOp::kBackwardFilter:
        return handle_.Call(
            api.ConvolutionBackwardFilter, handle_.get(), &args.alpha,
            operands_.input.get(), args.a, operands_.output.get(), args.b,
            convolution_.get(),
            static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), scratch,
            size, &args.beta, operands_.filter.get(), args.out);
    }
    return Fail(Code::kInternal, "no such operation");
  }

 private:
  CudnnHandle& handle_;
  const Operands operands_;
  const Owned<cudnnConvolutionDescriptor_t> convolution_;
  const int algorithm_;
  const Bytes workspace_;
};

// Suggestions for one accumulator type.
struct SuggestionsIn {
  cudnnDataType_t compute;
  std::vector<LegacySuggestion> best_first;
};

// A candidate's rank among cuDNN's suggestions; empty if it is not among them.
// A suggestion with the arithmetic of the candidate's descriptor counts first,
// then one with the default arithmetic, then any.
std::optional<std::size_t> PlaceOf(
    const LegacyChoice& choice,
    const std::vector<LegacySuggestion>& best_first) {
  const auto place = [&](auto&& says) -> std::optional<std::size_t> {
    const auto found = std::find_if(
        best_first.begin(), best_first.end(), [&](const LegacySuggestion& s) {
          return s.algorithm == choice.algorithm.value && says(s.math);
        });
    if (found == best_first.end()) return std::nullopt;
    return static_cast<std::size_t>(found - best_first.begin());
  };
  auto at = place([&](cudnnMathType_t m) { return m == choice.math.type; });
  if (!at)
    at = place([](cudnnMathType_t m) { return m == CUDNN_DEFAULT_MATH; });
  if (!at) at = place([](cudnnMathType_t) { return true; });
  return at;
}

}  // namespace

Result<std::vector<Candidate>> ListLegacy(CudnnHandle& handle,
                                          const ConvProblem& problem,
                                          BatchSize batch) {
  UCUDNN_ASSIGN_OR_RETURN(const ConvShapes shapes, ShapesOf(problem, batch));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  UCUDNN_ASSIGN_OR_RETURN(const Operands operands,
                          MakeOperands(handle, problem, shapes));
  std::vector<Owned<cudnnConvolutionDescriptor_t>> convolutions;
  for (const LegacyMath& math : LegacyMaths(problem.precision)) {
    UCUDNN_ASSIGN_OR_RETURN(
        auto convolution,
        ConvolutionDescriptor(handle, shapes, problem.geometry.groups, math));
    convolutions.push_back(std::move(convolution));
  }
  std::vector<Candidate> candidates;
  for (const LegacyAlgorithm& algorithm : LegacyAlgorithms(problem.op)) {
    for (std::size_t i = 0; i < convolutions.size(); ++i) {
      const LegacyMath& math = LegacyMaths(problem.precision)[i];
      std::size_t size = 0;
      const cudnnStatus_t status = QueryWorkspace(
          handle.api(), handle.get(), Describe(operands, convolutions[i].get()),
          algorithm.value, &size);
      if (status == CUDNN_STATUS_SUCCESS) {
        candidates.push_back({{std::string(algorithm.name),
                               std::string(math.name), math.precision},
                              Bytes(static_cast<std::int64_t>(size))});
        continue;
      }
      (void)handle.Check(status, "workspace query");
      UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
    }
  }
  return candidates;
}

Status OrderAsSuggested(CudnnHandle& handle, const ConvProblem& problem,
                        BatchSize batch, std::vector<Candidate>* candidates) {
  if (std::all_of(
          candidates->begin(), candidates->end(),
          [](const Candidate& c) { return IsEngineName(c.algorithm.name); })) {
    return {};
  }
  UCUDNN_ASSIGN_OR_RETURN(const ConvShapes shapes, ShapesOf(problem, batch));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  UCUDNN_ASSIGN_OR_RETURN(const Operands operands,
                          MakeOperands(handle, problem, shapes));
  // The requested arithmetic comes first.
  std::vector<SuggestionsIn> suggestions;
  for (const LegacyMath& math : LegacyMaths(problem.precision)) {
    const cudnnDataType_t compute = ComputeType(math.precision);
    if (std::any_of(suggestions.begin(), suggestions.end(),
                    [&](const auto& s) { return s.compute == compute; })) {
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(
        const auto convolution,
        ConvolutionDescriptor(handle, shapes, problem.geometry.groups, math));
    SuggestionsIn& asked = suggestions.emplace_back(SuggestionsIn{compute, {}});
    // If cuDNN has no suggestions, the list keeps its order.
    (void)handle.Check(QuerySuggestions(handle.api(), handle.get(),
                                        Describe(operands, convolution.get()),
                                        &asked.best_first),
                       "heuristics");
    UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
  }

  using Rank = std::pair<std::size_t, std::size_t>;
  const auto rank_of = [&](const Candidate& candidate) -> Rank {
    constexpr Rank kLast = {std::numeric_limits<std::size_t>::max(), 0};
    const auto choice =
        FindLegacy(problem.op, problem.precision, candidate.algorithm);
    if (!choice) return kLast;
    for (std::size_t i = 0; i < suggestions.size(); ++i) {
      if (suggestions[i].compute != ComputeType(choice->math.precision)) {
        continue;
      }
      const auto place = PlaceOf(*choice, suggestions[i].best_first);
      return place ? Rank{i, *place} : kLast;
    }
    return kLast;
  };
  std::vector<std::pair<Rank, Candidate>> ranked;
  ranked.reserve(candidates->size());
  for (Candidate& candidate : *candidates) {
    const Rank rank = rank_of(candidate);
    ranked.emplace_back(rank, std::move(candidate));
  }
  std::stable_sort(
      ranked.begin(), ranked.end(),
      [](const auto& x, const auto& y) { return x.first < y.first; });
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    (*candidates)[i] = std::move(ranked[i].second);
  }
  return {};
}

Result<std::unique_ptr<Convolution>> PrepareLegacy(CudnnHandle& handle,
                                                   const ConvProblem& problem,
                                                   BatchSize batch,
                                                   const Algorithm& algorithm) {
  UCUDNN_ASSIGN_OR_RETURN(const LegacyChoice choice,
                          FindLegacy(problem.op, problem.precision, algorithm));
  UCUDNN_ASSIGN_OR_RETURN(const ConvShapes shapes, ShapesOf(problem, batch));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  UCUDNN_ASSIGN_OR_RETURN(Operands operands,
                          MakeOperands(handle, problem, shapes));
  UCUDNN_ASSIGN_OR_RETURN(
      auto convolution,
      ConvolutionDescriptor(handle, shapes, problem.geometry.groups,
                            choice.math));
  std::size_t size = 0;
  const Status queried = handle.Check(
      QueryWorkspace(handle.api(), handle.get(),
                     Describe(operands, convolution.get()),
                     choice.algorithm.value, &size),
      fmt::format("workspace query of {} {}", algorithm.name, algorithm.math));
  if (!queried) {
    UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
    return Fail(Code::kNotFound, "{} at batch {}: {}", ToString(problem),
                batch.count(), queried.error().message);
  }
  return std::make_unique<LegacyConvolution>(
      handle, std::move(operands), std::move(convolution),
      choice.algorithm.value, Bytes(static_cast<std::int64_t>(size)));
}

}  // namespace ucudnn::cudnn
