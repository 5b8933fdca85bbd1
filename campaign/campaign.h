#ifndef UCUDNN_CAMPAIGN_CAMPAIGN_H_
#define UCUDNN_CAMPAIGN_CAMPAIGN_H_

// One task's measurements on one device: every algorithm of a convolution at
// one batch, or under the adaptive policy what plans for a mini-batch under
// some limits need.

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/goal.h"
#include "base/profile.h"
#include "base/result.h"
#include "device/measure/measure.h"

namespace ucudnn {

// Told of points as they are measured, so that they can be kept at once.
using PointsSink = std::function<void(const std::vector<MeasuredPoint>&)>;

struct CampaignTask {
  ConvProblem problem;
  BatchSize batch;
  TaskGoal goal;
  Bytes max_workspace;
  // What is known of the problem already, of whichever batch.
  std::vector<MeasuredPoint> known;
  // Of all algorithms this one alone.
  std::optional<Candidate> control = {};
};

// Adaptive (solver/micro_batch/adaptive.h): asks the device for workspaces,
// finding by bisection the largest batch of each algorithm under each limit;
// has a first look (one timing after the warm-up) at what is worth it; and
// measures well, as `options` say, what plans then consist of. Last resorts are
// left out where another algorithm fits at some batch.
//
// Returns what it measured, without `known`; `sink` is given the same points,
// in pieces. An algorithm that fails is left out. kCancelled once `stop` is
// requested: what the sink was given remains. Other errors as
// MeasureBench::Measure.
Result<std::vector<MeasuredPoint>> RunCampaign(
    Device& device, MeasureBench& bench, const CampaignTask& task,
    MeasureOptions options, const std::stop_token& stop,
    const MeasureProgress& progress, const PointsSink& sink);

// The limits that an adaptive task is about.
std::vector<Bytes> LimitsOf(const TaskGoal& goal, Bytes max_workspace);

}  // namespace ucudnn

#endif  // UCUDNN_CAMPAIGN_CAMPAIGN_H_
