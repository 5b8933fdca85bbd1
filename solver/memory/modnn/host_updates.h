#ifndef UCUDNN_SOLVER_MEMORY_MODNN_HOST_UPDATES_H_
#define UCUDNN_SOLVER_MEMORY_MODNN_HOST_UPDATES_H_

// Training on several GPUs of one host, as moDNN's authors do: each GPU trains
// on its part of the mini-batch, and the host adds up the gradients and updates
// the weights while the GPUs go on with the backward pass.
//
//   compute  ... | filter l | data l | filter l-1 | ...
//   copy              | dW(l) leaves |         | W(l) returns |
//   host                             | update l |
//
// Source: moDNN (see sub_batch.h), section 6 and figure 8.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "solver/memory/round_model.h"
#include "solver/memory/timeline.h"

namespace ucudnn {

// How fast the host adds up gradients, in bytes a microsecond (4 GB/s: E gives
// no figure; a core that reads two operands and writes one).
inline constexpr double kHostAddRate = 4e3;

// What one of `gpus` GPUs does: its part of the mini-batch, over its part of
// the link, which all use at once; updates are the host's, which adds up as
// many gradients as there are GPUs. Blocks and tasks keep their places. One GPU
// keeps the graph as it is. kInvalidArgument unless the mini-batch can be
// divided evenly.
Result<TrainingGraph> PartOfOneGpu(const TrainingGraph& graph, int gpus);

// What the naive way adds to an iteration (6.1, 7.5): GPU 0 fetches all
// gradients once the iteration is over and sends all weights back, one after
// the other over the link, whose full rate `graph` has.
Nanoseconds NaiveExchangeTime(const TrainingGraph& graph, int gpus);

// Moves gradients and weights of one round for its host updates: offload dW
// once it is complete, update when it has arrived, fetch W once that is done
// and W has had its last reader. Without host updates it does nothing.
class HostUpdates {
 public:
  // `round` must outlive it.
  explicit HostUpdates(const RoundModel& round);

  // After the task at place `position` of the round was computed. The copy
  // stream waits for nothing: weights whose update has yet to end at that
  // moment are fetched after a later task.
  void After(std::size_t position, Timeline* timeline);
  // After all tasks: what remains.
  void Finish(Timeline* timeline);

 private:
  struct Update {
    std::size_t task;      // of the graph
    std::size_t gradient;  // place of the task that completes dW
    std::size_t reader;    // of the last one that reads W
  };
  struct Running {
    Update update;
    Timeline::Event done;
  };

  void Fetch(const Update& update, Timeline* timeline) const;

  const RoundModel& round_;
  std::vector<Update> updates_;
  std::vector<Running> running_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_MODNN_HOST_UPDATES_H_
