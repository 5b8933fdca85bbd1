#ifndef UCUDNN_TESTS_GPU_FIGURES_DEEPBENCH_H_
#define UCUDNN_TESTS_GPU_FIGURES_DEEPBENCH_H_

// DeepBench's convolution layers, forward, as in figure 8 of the paper
// (mu-cuDNN, CLUSTER 2018, IV-A): each with 64 MiB of workspace and four times
// its batch, divided and undivided.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/network.h"
#include "base/result.h"
#include "base/units.h"
#include "tests/gpu/figures/points.h"

namespace ucudnn::figures {

struct BenchLayer {
  ConvLayer layer;
  BatchSize batch;
};

// Reads a network file with an additional column `batch`; multiplies batches by
// `factor`.
Result<std::vector<BenchLayer>> ReadBenchLayers(const std::string& path,
                                                std::int64_t factor);

ConvProblem ProblemOf(const BenchLayer& layer, Precision precision);

// The layer as JSON: planned_us, undivided_us, undivided_legacy_us.
Result<nlohmann::ordered_json> MeasureBenchLayer(PointSource& points,
                                                 const BenchLayer& layer,
                                                 Precision precision,
                                                 Bytes limit);

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_DEEPBENCH_H_
