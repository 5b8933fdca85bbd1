#ifndef UCUDNN_TESTS_SOLVER_MEMORY_BEST_BUILT_H_
#define UCUDNN_TESTS_SOLVER_MEMORY_BEST_BUILT_H_

// What the search for the best plan builds from a graph before it schedules the
// first round: nothing recomputed, no weights on the host, one round.

#include "solver/memory/best/program.h"
#include "solver/memory/best/schedule.h"
#include "solver/memory/best/task_options.h"
#include "solver/memory/round_model.h"

namespace ucudnn::test {

struct Built {
  explicit Built(const TrainingGraph& graph)
      : rounds(ModelRounds(graph, graph.batch).value()),
        options(rounds.models.front()),
        program(MakeProgram(rounds.models.front(), {}).value()),
        scheduler(program, options) {}

  Rounds rounds;
  TaskOptions options;
  RoundProgram program;
  Scheduler scheduler;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_MEMORY_BEST_BUILT_H_
