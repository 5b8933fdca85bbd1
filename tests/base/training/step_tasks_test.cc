#include "base/training/step_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;

TEST(StepTasksTest, TellsConvolutionsFromFullyConnectedLayers) {
  const Graph graph = test::SmallChain(4);
  const TrainingGraph training = BuildTrainingGraph(graph, {}).value();
  const std::vector<bool> are = AreConvolutions(training, NetworkOf(graph));
  ASSERT_EQ(are.size(), training.tasks.size());
  std::vector<std::string> names;
  for (std::size_t task = 0; task < are.size(); ++task) {
    if (are[task]) names.push_back(training.tasks[task].name);
  }
  EXPECT_THAT(names,
              ElementsAre("conv1.forward", "conv2.forward", "conv3.forward",
                          "conv3.backward_filter", "conv3.backward_data",
                          "conv2.backward_filter", "conv2.backward_data",
                          "conv1.backward_filter"));
}

TEST(StepTasksTest, UpdatesWhatTheTrainerUpdates) {
  OtherTasks tasks;
  EXPECT_FALSE(OptionsOf(tasks).momentum);
  EXPECT_TRUE(OptionsOf(tasks).running_statistics);
  tasks.momentum = true;
  tasks.precision = Precision::kTf32;
  EXPECT_TRUE(OptionsOf(tasks).momentum);
  EXPECT_EQ(OptionsOf(tasks).precision, Precision::kTf32);
}

}  // namespace
}  // namespace ucudnn
