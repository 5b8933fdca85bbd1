#include "base/training/step_tasks.h"

#include <set>
#include <string_view>

namespace ucudnn {

TrainingOptions OptionsOf(const OtherTasks& tasks) {
  TrainingOptions options;
  options.precision = tasks.precision;
  options.momentum = tasks.momentum;
  options.running_statistics = true;
  return options;
}

std::vector<bool> AreConvolutions(const TrainingGraph& graph,
                                  const Network& network) {
  std::set<std::string_view> layers;
  for (const ConvLayer& layer : network.layers) layers.insert(layer.name);
  std::vector<bool> are;
  are.reserve(graph.tasks.size());
  for (const Task& task : graph.tasks) {
    are.push_back(task.work.conv && layers.contains(NodeOf(task)));
  }
  return are;
}

}  // namespace ucudnn
