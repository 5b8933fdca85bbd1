// The largest batches of Split-CNN with HMMS beside those of plain training,
// as docs/results/memory-hmms-2026-11-22.md has them.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/memory/hmms.h"
#include "solver/memory/split/split.h"
#include "solver/memory/vdnn.h"
#include "tests/support/paper_networks.h"

namespace ucudnn {
namespace {

using Policy = Result<MemoryPlan> (*)(const TrainingGraph&,
                                      const MemoryRequest&);

struct Row {
  Graph (*network)(std::int64_t batch);
  std::string split;  // empty: none
  Policy policy;
  std::int64_t batch;  // the largest in 16 GB
};

// The plan of a P100 on NVLink.
Result<MemoryPlan> Planned(const Row& row, std::int64_t batch) {
  Result<Graph> network = row.network(batch);
  if (!row.split.empty()) {
    network = SplitGraph(*network, ParseSplitOptions(row.split).value());
  }
  TrainingGraph graph = BuildTrainingGraph(network.value(), {}).value();
  EXPECT_TRUE(SetDevice(*DeviceModelPreset("P100-NVLINK"), &graph));
  return row.policy(graph, {.budget = graph.device.memory});
}

double MicrosecondsPerImage(const Row& row) {
  const Result<MemoryPlan> plan = Planned(row, row.batch);
  EXPECT_TRUE(plan) << row.split << ": " << plan.error().message;
  return plan ? Microseconds(plan->time) / static_cast<double>(row.batch) : 0;
}

// Each row's batch fits, one image more does not, and the first row, plain
// training, is hardly faster per image than the others.
void ExpectLargestBatches(const std::vector<Row>& rows, double slower) {
  const double plain = MicrosecondsPerImage(rows.front());
  for (const Row& row : rows) {
    EXPECT_LE(MicrosecondsPerImage(row), slower * plain) << row.split;
    EXPECT_FALSE(Planned(row, row.batch + 1)) << row.split;
  }
}

TEST(SplitFiguresTest, Vgg19TrainsManyTimesTheBatch) {
  constexpr auto kNetwork = test::PaperVgg19;
  ExpectLargestBatches({{kNetwork, "", PlanBaseline, 225},
                        {kNetwork, "", PlanHmms, 300},
                        {kNetwork, "0.5,2,2", PlanHmms, 960},
                        {kNetwork, "1,2,2", PlanHmms, 1155},
                        {kNetwork, "0.5,3,2", PlanHmms, 1293},
                        {kNetwork, "0.5,4,4", PlanHmms, 1920}},
                       1.015);
}

TEST(SplitFiguresTest, ResNet50TrainsTwiceTheBatch) {
  constexpr auto kNetwork = test::PaperResNet50;
  ExpectLargestBatches({{kNetwork, "", PlanBaseline, 196},
                        {kNetwork, "", PlanHmms, 398},
                        {kNetwork, "0.5,2,2", PlanHmms, 435},
                        {kNetwork, "1,2,2", PlanHmms, 489}},
                       1.049);
}

}  // namespace
}  // namespace ucudnn
