#ifndef UCUDNN_CLIENT_TRAIN_ESTIMATES_H_
#define UCUDNN_CLIENT_TRAIN_ESTIMATES_H_

// Times of batches that were not measured, which tell what to measure.

#include <set>

#include "base/training/graph.h"
#include "base/units.h"

namespace ucudnn::train {

// The batches that tasks were measured at.
std::set<BatchSize> MeasuredSizes(const TrainingGraph& graph);

// Adds estimates at this batch to all tasks whose times depend on the batch and
// were not measured at it: times and workspaces are on the line through those
// of the measured batches on either side, and beyond the last one, of the last
// two. An algorithm is estimated where both have it;
// where none is in both, the fastest ones are. Earlier estimates count as
// measured, so call it for rising batches.
void EstimateTasksAt(BatchSize batch, TrainingGraph* graph);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_ESTIMATES_H_
