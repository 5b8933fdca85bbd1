#include "solver/memory/best/task_options.h"

#include <gtest/gtest.h>

#include "tests/solver/memory/small_graphs.h"

namespace ucudnn {
namespace {

TEST(TaskOptionsTest, RunAsTheySay) {
  for (const TrainingGraph& graph : test::SmallGraphs(16)) {
    const Rounds rounds = ModelRounds(graph, graph.batch).value();
    const TaskOptions options(rounds.models.front());
    int divided = 0;
    for (const std::size_t task : rounds.models.front().tasks) {
      const std::vector<TaskOption>& of_task = options.Of(task);
      ASSERT_FALSE(of_task.empty());
      for (std::size_t i = 0; i < of_task.size(); ++i) {
        const TaskRun run = options.RunOf(task, i);
        EXPECT_EQ(run.time.count(), of_task[i].time);
        EXPECT_LE(run.workspace.count(), of_task[i].workspace);
        if (i > 0) {
          EXPECT_GT(of_task[i].workspace, of_task[i - 1].workspace);
          EXPECT_LT(of_task[i].time, of_task[i - 1].time);
        }
        std::int64_t images = 0;
        for (const TaskPart& part : run.parts) {
          images += part.batch.count() * part.count;
          divided += part.batch < graph.batch ? 1 : 0;
        }
        EXPECT_TRUE(run.parts.empty() || images == graph.batch.count());
      }
    }
    EXPECT_GT(divided, 0) << graph.network;
  }
}

TEST(TaskOptionsTest, AreUndividedWhereThereIsOneAlgorithm) {
  TrainingGraph graph = test::OnSmallDevice(test::SmallChain(16));
  graph.device.algorithms.clear();
  const Rounds rounds = ModelRounds(graph, graph.batch).value();
  const TaskOptions options(rounds.models.front());
  for (const std::size_t task : rounds.models.front().tasks) {
    EXPECT_EQ(options.Of(task).size(), 1u);
  }
}

}  // namespace
}  // namespace ucudnn
