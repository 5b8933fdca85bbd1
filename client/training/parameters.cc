#include "client/training/parameters.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

namespace ucudnn {
namespace {

// Vigna's splitmix64.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  // In [-limit, limit).
  float Uniform(float limit) {
    constexpr float kUnit = 1.0F / (1 << 23);
    return (static_cast<float>(Next() >> 40) * kUnit - 1.0F) * limit;
  }

 private:
  std::uint64_t state_;
};

}  // namespace

Parameters InitialParameters(const TrainingGraph& training,
                             std::span<const TaskOperation> operations,
                             std::uint64_t seed) {
  Parameters parameters;
  // By its number among the weights, which splitting the network keeps.
  std::map<std::size_t, std::uint64_t> seeds;
  for (std::size_t block = 0; block < training.blocks.size(); ++block) {
    const MemoryBlock& b = training.blocks[block];
    if (b.kind != BlockKind::kWeight && b.kind != BlockKind::kMomentum)
      continue;
    if (b.kind == BlockKind::kWeight) seeds.emplace(block, seed + seeds.size());
    parameters[block].resize(static_cast<std::size_t>(b.bytes.count()) /
                             sizeof(float));
  }
  for (const TaskOperation& operation : operations) {
    if (operation.kind != TaskKind::kForward || !operation.w) continue;
    std::vector<float>& values = parameters.at(*operation.w);
    const auto filters = values.begin() + operation.filters;
    if (operation.what == TaskOperator::kNormalise) {
      // Scales and variances; offsets and means are 0.
      std::fill(values.begin(), filters, 1.0F);
      std::fill(values.end() - operation.filters, values.end(), 1.0F);
      continue;
    }
    const ConvGeometry& g = operation.conv->geometry;
    const double inputs =
        static_cast<double>(operation.filters) /
        static_cast<double>(operation.transposed ? g.channels : g.filters);
    const auto limit = static_cast<float>(std::sqrt(6 / inputs));
    Generator generator(seeds.at(*operation.w));
    std::generate(values.begin(), filters,
                  [&] { return generator.Uniform(limit); });
  }
  return parameters;
}

void CopyWeights(const TrainingGraph& from_training, const Parameters& from,
                 const TrainingGraph& training, Parameters* parameters) {
  const auto is_weight = [](const TrainingGraph& graph, std::size_t block) {
    return graph.blocks[block].kind == BlockKind::kWeight;
  };
  auto next = from.begin();
  for (auto& [block, values] : *parameters) {
    if (!is_weight(training, block)) continue;
    while (!is_weight(from_training, next->first)) ++next;
    values = (next++)->second;
  }
}

SyntheticBatch MakeSyntheticBatch(const TrainingGraph& training,
                                  std::span<const TaskOperation> operations,
                                  std::uint64_t seed) {
  SyntheticBatch batch;
  Generator generator(seed);
  const auto count = [&](std::size_t block) {
    return static_cast<std::size_t>(
        training.blocks[block].SizeAt(training.batch).count() / 4);
  };
  std::optional<std::size_t> labels;
  for (const TaskOperation& operation : operations) {
    if (operation.what != TaskOperator::kLoss) continue;
    labels = operation.labels;
    batch.labels.resize(count(*operation.labels));
    const auto classes = static_cast<std::uint64_t>(operation.input.channels);
    for (std::int32_t& label : batch.labels) {
      label = static_cast<std::int32_t>(generator.Next() % classes);
    }
  }
  for (std::size_t block = 0; block < training.blocks.size(); ++block) {
    if (training.blocks[block].kind != BlockKind::kInput || block == labels) {
      continue;
    }
    std::generate_n(std::back_inserter(batch.images), count(block),
                    [&] { return generator.Uniform(1.0F); });
  }
  return batch;
}

}  // namespace ucudnn
