#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/training/json.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read as a training graph is written as what reads back as the same.
UCUDNN_FUZZ(training_graph, text) {
  const Result<TrainingGraph> graph = ParseTrainingGraph(text, "graph");
  if (!graph) return CheckError(graph.error());
  std::set<BatchSize> batches = {graph->batch};
  for (const Task& task : graph->tasks) {
    for (const MeasuredPoint& point : task.work.measured) {
      batches.insert(point.batch);
      // Beyond 2^51 ns numbers of microseconds are not exact.
      if (point.time.count() >= std::int64_t{1} << 51) return;
    }
    if (task.work.fixed.value_or(Nanoseconds(0)).count() >= std::int64_t{1}
                                                                << 51) {
      return;
    }
  }
  const std::vector<BatchSize> all(batches.begin(), batches.end());
  const nlohmann::ordered_json json = ToJson(*graph, all);
  const Result<TrainingGraph> again = ParseTrainingGraph(json.dump(), "again");
  UCUDNN_CHECK(again.has_value());
  UCUDNN_CHECK(ToJson(*again, all) == json);
  UCUDNN_CHECK(again->blocks == graph->blocks);
}

}  // namespace ucudnn
