// Figures of the papers that the training graph alone gives.

#include <gtest/gtest.h>

#include "base/training/build.h"
#include "solver/memory/modnn/sub_batch.h"
#include "solver/memory/vdnn.h"
#include "tests/support/paper_networks.h"

namespace ucudnn {
namespace {

TrainingGraph Built(const Graph& network, Fusion fusion) {
  TrainingOptions options;
  options.fusion = fusion;
  Result<TrainingGraph> graph = BuildTrainingGraph(network, options);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph.value_or(TrainingGraph());
}

double Gigabytes(Bytes bytes) {
  return static_cast<double>(bytes.count()) / 1e9;
}

double AllGigabytes(const TrainingGraph& graph) {
  Bytes sum;
  for (const MemoryBlock& block : graph.blocks) {
    sum += block.SizeAt(graph.batch);
  }
  return Gigabytes(sum);
}

TEST(PaperFiguresTest, ModnnsLeastMemoryAndIdeal) {
  struct Row {
    Graph network;
    double least;  // equation (7), GB
    double all;    // every block at once
  };
  const Row rows[] = {
      {test::PaperVgg16(256), 0.965, 32.2},
      {test::PaperVgg19(256), 0.986, 34.9},
      {test::PaperVgg101(128), 1.437, 95.2},
      {test::PaperResNet34(256), 0.097, 8.4},
      {test::PaperResNet152(256), 0.250, 46.2},
  };
  for (const Row& row : rows) {
    const TrainingGraph graph = Built(row.network, Fusion::kPaper);
    EXPECT_NEAR(Gigabytes(ModnnLeastBytes(graph)), row.least,
                0.01 * row.least + 0.0005)
        << row.network.name;
    EXPECT_NEAR(AllGigabytes(graph), row.all, 0.01 * row.all)
        << row.network.name;
  }
}

TEST(PaperFiguresTest, BaselinesOfVdnn) {
  const auto wide = [](const Graph& network) {
    return Gigabytes(NetworkWideBytes(Built(network, Fusion::kNone)));
  };
  // "15 GB", "28 GB" and "1.1 GB" of the report hold workspace besides.
  EXPECT_NEAR(wide(test::PaperVgg16(128)), 12.2, 0.1);
  EXPECT_NEAR(wide(test::PaperVgg16(256)), 23.3, 0.2);
  EXPECT_NEAR(wide(test::PaperAlexNet(128)), 1.27, 0.02);
}

}  // namespace
}  // namespace ucudnn
