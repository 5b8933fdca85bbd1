#ifndef UCUDNN_DEVICE_MEASURE_CAMPAIGN_H_
#define UCUDNN_DEVICE_MEASURE_CAMPAIGN_H_

// One task's measurements on one device: every algorithm of a convolution at
// one batch or, under the adaptive policy, the points that plans for a
// mini-batch under some limits need.

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/goal.h"
#include "base/profile.h"
#include "base/result.h"
#include "device/measure/measure.h"

namespace ucudnn {

// Called with points as they are measured, so that they can be stored at once.
using PointsSink = std::function<void(const std::vector<MeasuredPoint>&)>;

struct CampaignTask {
  ConvProblem problem;
  BatchSize batch;
  TaskGoal goal;
  Bytes max_workspace;
  // Points of the problem that are known already, at any batch.
  std::vector<MeasuredPoint> known;
  // Measures this algorithm only.
  std::optional<Candidate> cross_check = {};
  // Leaves algorithms out that may return other bits every time.
  bool deterministic = false;
};

// Adaptive (solver/micro_batch/adaptive.h): queries the device for workspaces
// and finds by bisection the largest batch of each algorithm under each limit;
// takes a first look (one timing after the warm-up) at promising sizes; and
// measures thoroughly, as `options` say, the sizes that plans then consist of.
// Last resorts are left out if another algorithm fits at some batch. Algorithms
// that err by more than the goal admits (device/accuracy.h) only get a first
// look each, at their largest batch, so that it is known what they would gain.
//
// Returns what it measured, without `known`; `sink` receives the same points in
// parts, perhaps without their errors. An algorithm that fails is left out.
// kCancelled once `stop` is requested: points that the sink received remain
// valid. Other errors as for MeasureBench::Measure.
Result<std::vector<MeasuredPoint>> RunCampaign(
    Device& device, MeasureBench& bench, const CampaignTask& task,
    MeasureOptions options, const std::stop_token& stop,
    const MeasureProgress& progress, const PointsSink& sink);

// The limits of an adaptive task.
std::vector<Bytes> LimitsOf(const TaskGoal& goal, Bytes max_workspace);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_MEASURE_CAMPAIGN_H_
