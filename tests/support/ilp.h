#ifndef UCUDNN_TESTS_SUPPORT_ILP_H_
#define UCUDNN_TESTS_SUPPORT_ILP_H_

// Integer linear programmes, as the papers state workspace division and
// assignment, and the port to general solvers of them. Our own methods solve
// both far faster (solver/knapsack/mckp.h, solver/assign/assign.h); general
// solvers check them, and accept side constraints that ours do not support.
//
//   min  sum_j cost_j x_j   where  least_i <= sum_j a_ij x_j <= most_i,
//                                  least_j <= x_j <= most_j

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "solver/assign/assign.h"
#include "solver/knapsack/mckp.h"

namespace ucudnn {

inline constexpr std::int64_t kIlpUnbounded =
    std::numeric_limits<std::int64_t>::max();

struct IlpVariable {
  std::int64_t cost = 0;
  std::int64_t least = 0;
  std::int64_t most = 1;  // kIlpUnbounded: none
  bool integer = true;
};

struct IlpTerm {
  std::size_t variable = 0;
  std::int64_t coefficient = 0;
};

struct IlpRow {
  std::vector<IlpTerm> terms;
  std::int64_t least = -kIlpUnbounded;  // -kIlpUnbounded: none
  std::int64_t most = kIlpUnbounded;    // kIlpUnbounded: none
};

struct IlpProblem {
  std::vector<IlpVariable> variables;
  std::vector<IlpRow> rows;
};

struct IlpSolution {
  std::vector<double> values;  // integral for integer variables
  double cost = 0;
  bool optimal = false;  // as reported by the solver
};

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

// Equations 1-4 of section III-C: a variable for each item of each class, in
// order. Each class has a count of one.
IlpProblem MckpAsIlp(std::span<const MckpClass> classes, std::int64_t capacity);

// Section III-E: the first variable is the makespan; then, for each GPU, one
// for each row of its table. Ignores the GPUs' own limits and communication.
IlpProblem AssignmentAsIlp(const AssignProblem& problem);

// kInternal, naming the first constraint that `values` breaks: an integer
// variable has a fraction, or a bound or row is violated. Rows of integer
// variables only are checked exactly, others to one part in 10^6.
Status CheckIlp(const IlpProblem& problem, const std::vector<double>& values);

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_ILP_H_
