#ifndef UCUDNN_CLIENT_TRAIN_ESTIMATES_H_
#define UCUDNN_CLIENT_TRAIN_ESTIMATES_H_

// Times of batches that were not measured, which tell what to measure.

#include <set>
#include <span>

#include "base/training/graph.h"
#include "base/units.h"

namespace ucudnn::train {

// The batches that tasks were measured at.
std::set<BatchSize> MeasuredSizes(const TrainingGraph& graph);

// Adds estimates at these batches, which rise, to all tasks whose times depend
// on the batch and were not measured at it. Times and workspaces are on the
// line through those of the batches on either side, beyond the last one of the
// last two. An algorithm is estimated where both have it; if none is in both,
// the fastest ones are. Estimates of earlier batches count as measured.
void EstimateTasks(std::span<const BatchSize> batches, TrainingGraph* graph);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_ESTIMATES_H_
