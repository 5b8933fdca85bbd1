#include "client/dropin/planner/named_network.h"

#include <algorithm>

#include "base/files/file.h"
#include "client/dropin/planner/plan_file_kernels.h"

namespace ucudnn {
namespace {

constexpr Bytes kMaxFile = 1_GiB;

// Plans are JSON objects; a network's CSV header does not start with a brace.
bool IsPlan(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace

Result<NamedNetwork> NamedNetwork::Read(const std::string& path,
                                        const std::string& kind) {
  NamedNetwork named;
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFile));
  if (IsPlan(text)) {
    UCUDNN_ASSIGN_OR_RETURN(const auto plans,
                            ParseKernelPlans(text, kind, path));
    for (const FileKernel& kernel : plans) {
      named.planned_.push_back({*kernel.plan.problem, kernel.batch});
    }
    return named;
  }
  if (path.ends_with(".onnx") || path.ends_with(".onnx.gz")) {
    return Fail(Code::kInvalidArgument,
                "{}: an ONNX model; its convolutions as CSV, as `ucudnn "
                "networks convert {}` prints them, or a plan for it, as "
                "`ucudnn plan -o json` does, are accepted",
                path, path);
  }
  UCUDNN_ASSIGN_OR_RETURN(named.network_, ParseNetworkCsv(text, path, path));
  return named;
}

std::vector<LocalSolver::Kernel> NamedNetwork::KernelsLike(
    const LocalSolver::Kernel& kernel, bool tells_layers) const {
  std::vector<LocalSolver::Kernel> kernels;
  const auto add = [&](const LocalSolver::Kernel& named) {
    if (named.batch == kernel.batch &&
        (tells_layers || std::ranges::find(kernels, named) == kernels.end())) {
      kernels.push_back(named);
    }
  };
  for (const LocalSolver::Kernel& planned : planned_) add(planned);
  for (const Kernel& of_network :
       KernelsOf(network_, kernel.problem.precision, kernel.problem.layout)) {
    // A call of cuDNN counts all images, folded into the batch or not.
    ConvProblem problem = of_network.problem;
    problem.geometry.images = 1;
    add({problem, kernel.batch});
  }
  return kernels;
}

}  // namespace ucudnn
