#include "client/train/measurements.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/training/costs.h"
#include "base/training/json.h"
#include "client/train/estimates.h"

namespace ucudnn::train {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const MeasuredPoint& point) {
  Json json = {{"batch", point.batch.count()},
               {"algorithm", point.algorithm.name},
               {"math", point.algorithm.math},
               {"precision", Name(point.algorithm.precision)},
               {"workspace_bytes", point.workspace.count()}};
  for (const PointNumber& number : PointNumbers()) {
    if (const std::int64_t value = number.get(point); value != 0) {
      json[std::string(number.name)] = value;
    }
  }
  return json;
}

// A day, of which no step's sum overflows.
constexpr std::int64_t kLongest = std::int64_t{86'400} * 1'000'000'000;

// Throws Json::exception.
Result<MeasuredPoint> PointOf(const Json& json) {
  const std::string name = json.at("algorithm");
  // Tasks without a choice of algorithms have no name.
  UCUDNN_ASSIGN_OR_RETURN(
      MeasuredPoint point,
      MakePoint(json.at("batch").get<std::int64_t>(),
                name.empty() ? "none" : name,
                json.at("math").get<std::string>(),
                json.at("precision").get<std::string>(),
                json.at("workspace_bytes").get<std::int64_t>()));
  point.algorithm.name = name;
  for (const PointNumber& number : PointNumbers()) {
    UCUDNN_RETURN_IF_ERROR(
        SetNumber(number, json.value(number.name, std::int64_t{0}), &point));
  }
  if (point.time.count() > kLongest) {
    return Fail(Code::kInvalidArgument,
                "measurements: time_ns is {}; at most {} is accepted",
                point.time.count(), kLongest);
  }
  return point;
}

// Every task has points at the same batches, but updates, which take the same
// time at any.
Status CheckComplete(const TrainingGraph& graph) {
  const std::set<BatchSize> sizes = MeasuredSizes(graph);
  for (const Task& task : graph.tasks) {
    std::set<BatchSize> own;
    for (const MeasuredPoint& point : task.work.measured) {
      own.insert(point.batch);
    }
    if (task.kind == TaskKind::kUpdate ? !own.empty() : own == sizes) continue;
    return Fail(Code::kInvalidArgument,
                "task '{}' has points at {} batches; those of other tasks, at "
                "{}, are accepted",
                Excerpt(task.name, 200), own.size(), sizes.size());
  }
  return {};
}

}  // namespace

Json MeasurementsOf(const TrainingGraph& graph) {
  Json tasks = Json::array();
  for (const Task& task : graph.tasks) {
    Json points = Json::array();
    for (const MeasuredPoint& point : task.work.measured) {
      points.push_back(ToJson(point));
    }
    tasks.push_back(std::move(points));
  }
  return {{"device", ucudnn::ToJson(graph.device)},
          {"tasks", std::move(tasks)}};
}

Status SetMeasurements(const Json& json, TrainingGraph* graph) {
  try {
    UCUDNN_ASSIGN_OR_RETURN(const DeviceModel device,
                            DeviceModelOf(json.at("device")));
    UCUDNN_RETURN_IF_ERROR(SetDevice(device, graph));
    const Json& tasks = json.at("tasks");
    if (tasks.size() != graph->tasks.size()) {
      return Fail(Code::kInvalidArgument,
                  "measurements of {} tasks; {} are expected", tasks.size(),
                  graph->tasks.size());
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      std::vector<MeasuredPoint>& points = graph->tasks[i].work.measured;
      points.clear();
      for (const Json& point : tasks[i]) {
        auto read = PointOf(point);
        if (!read) {
          return Within(fmt::format("task '{}'", graph->tasks[i].name),
                        std::move(read).error());
        }
        points.push_back(*std::move(read));
      }
    }
    UCUDNN_RETURN_IF_ERROR(CheckComplete(*graph));
  } catch (const Json::exception& error) {
    return Fail(Code::kInvalidArgument, "measurements: {}", error.what());
  }
  return {};
}

}  // namespace ucudnn::train
