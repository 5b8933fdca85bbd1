#include "device/cudnn/graph/graph.h"

#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "device/cudnn/graph/convolution.h"
#include "device/cudnn/graph/engine_cache.h"
#include "device/cudnn/graph/engine_check.h"
#include "device/cudnn/graph/name.h"
#include "device/cudnn/graph/problem.h"
#include "device/cudnn/legacy/algorithms.h"

namespace ucudnn::cudnn {
namespace {

// The precisions of the graphs that serve a request.
std::vector<Precision> GraphsFor(Precision asked) {
  if (asked == Precision::kTrueHalf) return {asked, Precision::kPseudoHalf};
  return {asked};
}

// The engines that the heuristics suggest for problems computed as `asked`,
// each once; none if cuDNN does not support such a graph. On float data the
// first suggestions are engines that round, which FP32 cannot use; they are
// left out and do not count towards `most`.
Result<std::vector<EngineName>> Suggested(GraphProblem& problem,
                                          Precision asked, int most) {
  std::vector<EngineName> engines;
  const auto graph = problem.Graph(ComputeType(asked), Scaling());
  UCUDNN_RETURN_IF_ERROR(problem.handle().CheckLost());
  if (!graph) return engines;
  const bool exact = asked == Precision::kFp32;
  std::set<EngineName> seen;
  for (const cudnnBackendHeurMode_t mode :
       {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const auto suggested = (*graph)->Suggest(mode);
    UCUDNN_RETURN_IF_ERROR(problem.handle().CheckLost());
    if (!suggested) continue;
    for (const auto& [engine, rounds_floats] : *suggested) {
      if (exact && rounds_floats) continue;
      if (mode == CUDNN_HEUR_MODE_A && most > 0 &&
          std::ssize(engines) >= most) {
        break;
      }
      if (seen.insert(engine).second) engines.push_back(engine);
    }
  }
  return engines;
}

// What is done with an engine that the heuristics suggest.
using Visit = std::function<Status(const std::shared_ptr<GraphProblem>& problem,
                                   Precision asked, const EngineName& engine,
                                   const EngineVerdict& verdict)>;

// Visits the engines that the heuristics suggest, in their order, inside
// handle.Enter().
Status ForEachSuggested(CudnnHandle& handle, const ConvProblem& problem,
                        BatchSize batch, int most, const Visit& visit) {
  UCUDNN_ASSIGN_OR_RETURN(const std::shared_ptr<GraphProblem> shared,
                          GraphProblem::Create(handle, problem, batch));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  EngineBench bench(handle, problem);
  for (const Precision precision : GraphsFor(problem.precision)) {
    UCUDNN_ASSIGN_OR_RETURN(const auto engines,
                            Suggested(*shared, precision, most));
    for (const EngineName& engine : engines) {
      auto verdict = bench.Judge(precision, engine);
      UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
      // The check could not run, for want of memory for example: an engine that
      // is not known to be right is not offered.
      if (!verdict) verdict = EngineVerdict{verdict.error().message, false};
      UCUDNN_RETURN_IF_ERROR(visit(shared, precision, engine, *verdict));
      UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Candidate>> ListGraph(CudnnHandle& handle,
                                         const ConvProblem& problem,
                                         BatchSize batch, int most) {
  std::vector<Candidate> candidates;
  auto cache = std::make_unique<EngineCache>(problem, batch);
  const auto make = [&](const auto& shared, Precision asked,
                        const EngineName& engine,
                        const EngineVerdict& verdict) -> Status {
    if (!verdict.fault.empty()) return {};
    auto made = GraphConvolution::Create(shared, asked, engine, verdict.scales);
    if (!made || !Admits(problem.precision, (*made)->precision())) return {};
    const Algorithm algorithm = {ToString(engine), "", (*made)->precision()};
    candidates.push_back({algorithm, (*made)->workspace()});
    cache->Add(algorithm, *std::move(made));
    return {};
  };
  UCUDNN_RETURN_IF_ERROR(ForEachSuggested(handle, problem, batch, most, make));
  handle.engine_cache() = std::move(cache);
  return candidates;
}

Result<std::vector<Candidate>> ForeseeGraph(CudnnHandle& handle,
                                            const ConvProblem& problem,
                                            BatchSize batch, int most) {
  constexpr std::size_t kFirstThatTells = 90200;
  if (handle.api().GetVersion() < kFirstThatTells) {
    return ListGraph(handle, problem, batch, most);
  }
  std::vector<Candidate> candidates;
  const auto foresee = [&](const auto& shared, Precision asked,
                           const EngineName& engine,
                           const EngineVerdict& verdict) -> Status {
    if (!verdict.fault.empty()) return {};
    const auto foreseen = ForeseeEngine(*shared, asked, engine, verdict.scales);
    if (!foreseen || !Admits(problem.precision, foreseen->precision)) return {};
    candidates.push_back(
        {{ToString(engine), "", foreseen->precision}, foreseen->workspace});
    return {};
  };
  UCUDNN_RETURN_IF_ERROR(
      ForEachSuggested(handle, problem, batch, most, foresee));
  return candidates;
}

Result<std::unique_ptr<Convolution>> PrepareGraph(CudnnHandle& handle,
                                                  const ConvProblem& problem,
                                                  BatchSize batch,
                                                  const Algorithm& algorithm) {
  const auto refuse = [&](std::string_view why) {
    return Fail(Code::kNotFound, "{} at batch {}: {} in {}: {}",
                ToString(problem), batch.count(), algorithm.name,
                Name(algorithm.precision), why);
  };
  const auto engine = ParseEngineName(algorithm.name);
  if (!engine) return refuse(engine.error().message);
  if (!algorithm.math.empty()) return refuse("an engine's math has no name");
  if (!Admits(problem.precision, algorithm.precision)) {
    return refuse("it does not serve the requested precision");
  }
  if (handle.engine_cache() != nullptr) {
    UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
    auto ready = handle.engine_cache()->Find(problem, batch, algorithm);
    if (ready != nullptr) return ready;
  }
  UCUDNN_ASSIGN_OR_RETURN(auto shared,
                          GraphProblem::Create(handle, problem, batch));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  // On float data the engine determines the arithmetic, not the request.
  EngineBench bench(handle, problem);
  UCUDNN_ASSIGN_OR_RETURN(const EngineVerdict verdict,
                          bench.Judge(algorithm.precision, *engine));
  if (!verdict.fault.empty()) return refuse(verdict.fault);
  auto made = GraphConvolution::Create(std::move(shared), algorithm.precision,
                                       *engine, verdict.scales);
  if (!made) {
    UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
    return refuse(made.error().message);
  }
  if ((*made)->precision() != algorithm.precision) {
    return refuse("the engine computes in another precision");
  }
  return *std::move(made);
}

}  // namespace ucudnn::cudnn
