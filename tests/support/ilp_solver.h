#ifndef UCUDNN_TESTS_SUPPORT_ILP_SOLVER_H_
#define UCUDNN_TESTS_SUPPORT_ILP_SOLVER_H_

// The port to general solvers of integer linear programmes, which judge ours.

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "solver/ilp/ilp.h"

namespace ucudnn {

class IlpSolver {
 public:
  virtual ~IlpSolver() = default;
  virtual std::string_view name() const = 0;
  // `time_limit_ms` 0: none. Errors: kFailedPrecondition if there is no
  // solution, kDeadlineExceeded if none was found in time, kInternal if the
  // solver fails or its answer breaks a constraint.
  virtual Result<IlpSolution> Solve(const IlpProblem& problem,
                                    std::int64_t time_limit_ms) = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_ILP_SOLVER_H_
