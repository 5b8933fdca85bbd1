#include "tests/gpu/figures/deepbench.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/files/csv.h"
#include "base/files/file.h"
#include "solver/micro_batch/wr.h"
#include "tests/gpu/figures/network_figure.h"

namespace ucudnn::figures {

Result<std::vector<BenchLayer>> ReadBenchLayers(const std::string& path,
                                                std::int64_t factor) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1_MiB));
  UCUDNN_ASSIGN_OR_RETURN(Network network,
                          ParseNetworkCsv(text, "deepbench", path));
  UCUDNN_ASSIGN_OR_RETURN(CsvReader csv, CsvReader::Open(text, path));
  UCUDNN_ASSIGN_OR_RETURN(const CsvColumn batch, csv.Require("batch"));
  std::vector<BenchLayer> layers;
  for (ConvLayer& layer : network.layers) {
    UCUDNN_RETURN_IF_ERROR(csv.Next());
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t images,
                            csv.Read(batch, [](std::string_view field) {
                              return ParseInteger(field, 1, 1 << 20);
                            }));
    layers.push_back({std::move(layer), BatchSize(images * factor)});
  }
  return layers;
}

ConvProblem ProblemOf(const BenchLayer& layer, Precision precision) {
  return {ConvOp::kForward, layer.layer.geometry, precision, Layout::kNchw};
}

Result<nlohmann::ordered_json> MeasureBenchLayer(PointSource& points,
                                                 const BenchLayer& layer,
                                                 Precision precision,
                                                 Bytes limit) {
  const ConvProblem problem = ProblemOf(layer, precision);
  UCUDNN_ASSIGN_OR_RETURN(const auto* measured,
                          points.PointsOf(problem, layer.batch, {limit}));
  KernelProfile kernel;
  kernel.points = *measured;
  nlohmann::ordered_json json = {{"layer", layer.layer.name},
                                 {"batch", layer.batch.count()},
                                 {"precision", Name(precision)},
                                 {"limit_bytes", limit.count()}};
  const auto plan = SolveWr(kernel, {layer.batch, limit, BatchPolicy::kAll});
  const auto put = [&](const char* key,
                       const std::optional<Nanoseconds>& time) {
    json[key] = time ? nlohmann::ordered_json(Microseconds(*time))
                     : nlohmann::ordered_json(nullptr);
  };
  put("planned_us", plan ? std::optional(plan->time) : std::nullopt);
  put("undivided_us", Undivided(*measured, layer.batch, limit, false));
  put("undivided_legacy_us", Undivided(*measured, layer.batch, limit, true));
  // The paper's comparison: only the legacy API, divided.
  std::erase_if(kernel.points, [](const MeasuredPoint& p) {
    return p.algorithm.name.starts_with("eng");
  });
  const auto legacy = SolveWr(kernel, {layer.batch, limit, BatchPolicy::kAll});
  put("planned_legacy_us", legacy ? std::optional(legacy->time) : std::nullopt);
  if (plan) {
    json["micro_batches"] = nlohmann::ordered_json::array();
    for (const MicroBatch& m : plan->micro_batches) {
      json["micro_batches"].push_back(Describe(m));
    }
  }
  return json;
}

}  // namespace ucudnn::figures
