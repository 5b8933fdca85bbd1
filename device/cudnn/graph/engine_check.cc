#include "device/cudnn/graph/engine_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "device/cudnn/legacy/algorithms.h"
#include "device/elements.h"
#include "device/rounding.h"

namespace ucudnn::cudnn {
namespace {

constexpr Scaling kReplace = {1.0F, 0.0F};
constexpr Scaling kAdd = {1.0F, 1.0F};
constexpr Scaling kBoth = {0.5F, -0.75F};

// NaN in every precision.
constexpr unsigned char kNanByte = 0xff;

// Twelve runs of four elements each, from the first to the last.
std::vector<std::int64_t> SampledElements(std::int64_t count) {
  constexpr std::int64_t kRuns = 12;
  constexpr std::int64_t kLength = 4;
  std::vector<std::int64_t> elements;
  for (std::int64_t run = 0; run < kRuns; ++run) {
    const std::int64_t first =
        std::max<std::int64_t>(count - kLength, 0) * run / (kRuns - 1);
    for (std::int64_t i = first; i < std::min(first + kLength, count); ++i) {
      if (elements.empty() || elements.back() < i) elements.push_back(i);
    }
  }
  return elements;
}

float ValueOf(unsigned char byte, Precision precision) {
  const auto size = static_cast<std::size_t>(ElementBytes(precision));
  const std::string bytes(size, static_cast<char>(byte));
  return DecodeElements(bytes, precision).front();
}

// A byte which, repeated, is a number of at least `least`, or the largest
// possible one if `least` exceeds it.
unsigned char ByteOfAtLeast(double least, Precision precision) {
  unsigned char byte = 0x3c;
  while (byte < 0x70 && ValueOf(byte, precision) < least) byte += 4;
  return byte;
}

}  // namespace

BatchSize CheckBatch(const ConvProblem& problem) {
  constexpr std::int64_t kImages = 3;
  constexpr std::int64_t kMostElements = 1 << 20;
  const std::int64_t image = std::max(problem.geometry.input_elements(),
                                      problem.geometry.output_elements());
  return BatchSize(kImages * image <= kMostElements ? kImages : 1);
}

EngineBench::EngineBench(CudnnHandle& handle, const ConvProblem& problem)
    : handle_(handle),
      problem_(problem),
      batch_(CheckBatch(problem)),
      elements_(ElementsOf(problem, batch_)) {}

EngineBench::~EngineBench() {
  if (driver_ == nullptr) return;
  const auto scope = handle_.Enter();
  if (!scope) return;  // lost: nothing can be released
  for (const CUdeviceptr memory : {a_, b_, out_, workspace_}) {
    if (memory != 0) (void)driver_->MemFree(memory);
  }
}

Status EngineBench::Allocate(Bytes size, CUdeviceptr* memory) {
  if (*memory != 0) (void)driver_->MemFree(*memory);
  *memory = 0;
  return handle_.Call(
      driver_->MemAlloc, memory,
      static_cast<std::size_t>(std::max(size.count(), std::int64_t{1})));
}

Status EngineBench::Prepare() {
  if (graphs_ != nullptr) return {};
  UCUDNN_ASSIGN_OR_RETURN(auto graphs,
                          GraphProblem::Create(handle_, problem_, batch_));
  UCUDNN_ASSIGN_OR_RETURN(driver_, handle_.driver());
  UCUDNN_ASSIGN_OR_RETURN(stream_, handle_.stream());
  const std::int64_t size = ElementBytes(problem_.precision);
  std::vector<float> values[2];
  const std::pair<CUdeviceptr*, std::int64_t> operands[] = {{&a_, elements_.a},
                                                            {&b_, elements_.b}};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& [memory, count] = operands[i];
    UCUDNN_RETURN_IF_ERROR(Allocate(Bytes(count * size), memory));
    const std::string bytes =
        RandomElements(count, problem_.precision, std::uint64_t{i} + 1);
    UCUDNN_RETURN_IF_ERROR(handle_.Call(driver_->MemcpyHtoDAsync, *memory,
                                        bytes.data(), bytes.size(), stream_));
    // The copy reads the host's memory until then.
    UCUDNN_RETURN_IF_ERROR(handle_.Call(driver_->StreamSynchronize, stream_));
    values[i] = DecodeElements(bytes, problem_.precision);
  }
  UCUDNN_RETURN_IF_ERROR(Allocate(Bytes(elements_.out * size), &out_));
  for (const std::int64_t index : SampledElements(elements_.out)) {
    const ReferenceElement expected =
        ComputeElement(problem_, batch_, values[0], values[1], index);
    samples_.push_back({index, expected});
    scale_ = std::max(scale_, expected.magnitude);
  }
  graphs_ = std::move(graphs);
  return {};
}

Result<EngineVerdict> EngineBench::Judge(Precision asked,
                                         const EngineName& engine) {
  // Graphs on float data are the same for every requested precision.
  const Precision computes =
      DataType(asked) == CUDNN_DATA_FLOAT ? problem_.precision : asked;
  const EngineValidation::Key key(problem_, computes, engine);
  if (const auto* known = handle_.engine_validation().Find(key)) return *known;
  UCUDNN_RETURN_IF_ERROR(Prepare());
  UCUDNN_ASSIGN_OR_RETURN(EngineVerdict verdict, Find(asked, engine));
  return handle_.engine_validation().Add(key, std::move(verdict));
}

Result<EngineVerdict> EngineBench::Find(Precision asked,
                                        const EngineName& engine) {
  const auto build =
      [&](Scaling scaling) -> Result<std::unique_ptr<EngineConvolution>> {
    UCUDNN_ASSIGN_OR_RETURN(auto graph,
                            graphs_->Graph(ComputeType(asked), scaling));
    return EngineConvolution::Create(std::move(graph), engine);
  };
  EngineVerdict verdict;
  const auto replace = build(kReplace);
  UCUDNN_RETURN_IF_ERROR(handle_.CheckLost());
  if (!replace && replace.error().code == Code::kResourceExhausted) {
    return tl::unexpected<Error>(replace.error());
  }
  if (!replace) {
    verdict.fault = fmt::format(
        "does not take {} images, on which it would "
        "be checked: {}",
        batch_.count(), replace.error().message);
    return verdict;
  }
  const bool exact =
      DataType(asked) == CUDNN_DATA_FLOAT && !(*replace)->rounds_floats();
  const Precision precision = exact ? Precision::kFp32
                              : DataType(asked) == CUDNN_DATA_FLOAT
                                  ? Precision::kTf32
                                  : asked;
  const double tolerance = ToleranceOf(precision);
  const auto replaced = ErrorOf(**replace, kReplace, tolerance);
  UCUDNN_RETURN_IF_ERROR(handle_.CheckLost());
  if (!replaced && replaced.error().code == Code::kResourceExhausted) {
    return tl::unexpected<Error>(replaced.error());
  }
  if (!replaced) {
    verdict.fault = "failed when it was checked: " + replaced.error().message;
    return verdict;
  }
  if (!(*replaced <= 1)) {  // NaN is no better
    verdict.fault = fmt::format(
        "gives a wrong result: {:.2g} times the error that {} admits",
        *replaced, Name(precision));
    return verdict;
  }
  for (const Scaling scaling : {kAdd, kBoth}) {
    const auto plan = build(scaling);
    UCUDNN_RETURN_IF_ERROR(handle_.CheckLost());
    if (!plan || (*plan)->workspace() > (*replace)->workspace()) {
      return verdict;
    }
    const auto error = ErrorOf(**plan, scaling, tolerance);
    UCUDNN_RETURN_IF_ERROR(handle_.CheckLost());
    if (!error || !(*error <= 1)) return verdict;
  }
  verdict.scales = true;
  return verdict;
}

Result<double> EngineBench::ErrorOf(const EngineConvolution& plan,
                                    Scaling scaling, double tolerance) {
  const Bytes needed = std::max(plan.workspace(), Bytes(1));
  if (needed > workspace_size_) {
    workspace_size_ = Bytes();
    UCUDNN_RETURN_IF_ERROR(Allocate(needed, &workspace_));
    workspace_size_ = needed;
  }
  const auto fill = [&](CUdeviceptr memory, unsigned char byte, Bytes size) {
    return handle_.Call(driver_->MemsetD8Async, memory, byte,
                        static_cast<std::size_t>(size.count()), stream_);
  };
  // Large enough that an ignored beta cannot pass for a rounding error.
  const unsigned char old_byte =
      scaling.beta == 0.0F
          ? kNanByte
          : ByteOfAtLeast(std::max(1.0, 8 * tolerance * scale_),
                          problem_.precision);
  const double old =
      scaling.beta == 0.0F ? 0 : ValueOf(old_byte, problem_.precision);
  const std::int64_t size = ElementBytes(problem_.precision);
  UCUDNN_RETURN_IF_ERROR(fill(out_, old_byte, Bytes(elements_.out * size)));
  UCUDNN_RETURN_IF_ERROR(fill(workspace_, kNanByte, needed));
  const auto pointer = [](CUdeviceptr memory) {
    return reinterpret_cast<void*>(memory);
  };
  UCUDNN_RETURN_IF_ERROR(plan.Execute(pointer(a_), pointer(b_), pointer(out_),
                                      pointer(workspace_)));
  std::string bytes(samples_.size() * static_cast<std::size_t>(size), '\0');
  // Copies neighbouring elements at once.
  for (std::size_t i = 0; i < samples_.size();) {
    std::size_t end = i + 1;
    while (end < samples_.size() &&
           samples_[end].index == samples_[end - 1].index + 1) {
      ++end;
    }
    UCUDNN_RETURN_IF_ERROR(
        handle_.Call(driver_->MemcpyDtoHAsync,
                     bytes.data() + i * static_cast<std::size_t>(size),
                     out_ + static_cast<CUdeviceptr>(samples_[i].index * size),
                     (end - i) * static_cast<std::size_t>(size), stream_));
    i = end;
  }
  UCUDNN_RETURN_IF_ERROR(handle_.Call(driver_->StreamSynchronize, stream_));
  const std::vector<float> values = DecodeElements(bytes, problem_.precision);
  const double allowed = tolerance * (std::fabs(scaling.alpha) * scale_ +
                                      std::fabs(scaling.beta * old)) +
                         std::numeric_limits<double>::min();
  double largest = 0;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const double expected =
        scaling.alpha * samples_[i].expected.value + scaling.beta * old;
    const double error = std::fabs(values[i] - expected) / allowed;
    if (!(error <= largest)) largest = error;  // NaN stays
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace ucudnn::cudnn
