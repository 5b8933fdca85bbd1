#ifndef UCUDNN_CLIENT_TRAIN_MEASUREMENTS_H_
#define UCUDNN_CLIENT_TRAIN_MEASUREMENTS_H_

// What one rank measured, for other ranks with the same kind of device, and for
// the next start of the same training.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "base/training/graph.h"

namespace ucudnn::train {

// {"device":{…},"tasks":[[{"batch":…,"algorithm":…,…}]]}: the device model and,
// by task, all points. Unlike ToJson (base/training/json.h), this keeps what
// algorithms compute with, which devices need to prepare them.
nlohmann::ordered_json MeasurementsOf(const TrainingGraph& graph);

// Sets the device and the points of a graph with the same tasks.
// kInvalidArgument, naming what is malformed; then the graph is unusable.
Status SetMeasurements(const nlohmann::ordered_json& json,
                       TrainingGraph* graph);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_MEASUREMENTS_H_
