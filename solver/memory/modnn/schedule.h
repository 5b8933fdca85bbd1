#ifndef UCUDNN_SOLVER_MEMORY_MODNN_SCHEDULE_H_
#define UCUDNN_SOLVER_MEMORY_MODNN_SCHEDULE_H_

// moDNN's schedule of one round: what leaves, what returns when, and which
// algorithms run. One copy stream; weights and their gradients stay.
//
//   T = 0;  EST(s) = start of s with the fastest algorithms and no delay
//   for t in order:
//     allocate missing inputs and outputs; on failure by the offload scheme of
//       least delay (schemes.h), without one by defragmentation
//     load missing inputs; T = their arrival
//     a = argmax of gain(a) = T_base - T_a - T_off,a - T_pre,a(u)          (10)
//     for s = t+1, ...:  stop if s would be defragmented for      (line 16)
//       if s lacks blocks:  stop unless it would be late otherwise:
//                             T + T_a(t) + transfers of s > EST(s)         (9)
//                           allocate and fetch them; stop if that fails
//     T += T_a(t);  free what has no later use
//
// Source: moDNN (see sub_batch.h), algorithm 1, sections 5.2.1 to 5.2.3.
//
// Where the source leaves it open: every delay is added to EST of all later
// tasks, so EST(s) is T + T_a(t) and the fastest times of the tasks between; a
// block is "used since it was made" once a task reads it without writing it;
// room for a prefetch for s is not made by what tasks t to s use; of a task's
// blocks that are missing, all count once, wherever they lie, in the prediction
// of line 16.

#include <vector>

#include "base/result.h"
#include "base/training/memory_plan.h"
#include "solver/memory/round_model.h"

namespace ucudnn {

struct ModnnRoundOptions {
  Bytes budget;
  // Persistent blocks, and inputs.
  std::vector<ResidentBlock> residents;
  // Gradients that are not persistent: on the device from the start all the
  // same.
  std::vector<ResidentBlock> gradients;
  // Whether the memory manager's addresses are the plan's.
  bool placed = true;
};

// The round's tasks are run in the order of `round`, in which updates come
// last (3.2); `round` must outlive the call. Pure and deterministic.
// kFailedPrecondition if a task does not fit, which it names.
// O(tasks * (tasks + blocks^2)).
Result<MemoryRound> ScheduleModnnRound(const RoundModel& round,
                                       const ModnnRoundOptions& options);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_MODNN_SCHEDULE_H_
