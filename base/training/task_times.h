#ifndef UCUDNN_BASE_TRAINING_TASK_TIMES_H_
#define UCUDNN_BASE_TRAINING_TASK_TIMES_H_

// Measured times of tasks other than convolutions: the rows of a profile
// (base/profile.h) whose algorithm is NONE. Their layer is the node's name,
// their op forward, loss, backward, backward_filter, backward_data or update.

#include <string>
#include <string_view>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

struct TaskTime {
  std::string node;
  std::string op;
  BatchSize batch;
  Nanoseconds time{0};  // median of the repeats

  friend bool operator==(const TaskTime&, const TaskTime&) = default;
};

// Reads these rows, of the device, network, layout and precision that `filter`
// names, sorted by node, op and batch; other rows are skipped. Empty if there
// are none. kInvalidArgument, naming line and column: a field does not parse;
// the rows are of several devices or networks.
// O(rows log rows).
Result<std::vector<TaskTime>> ParseTaskTimesCsv(std::string_view text,
                                                const ProfileFilter& filter,
                                                std::string_view source);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_TASK_TIMES_H_
