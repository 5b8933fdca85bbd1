#ifndef UCUDNN_SOLVER_ILP_ILP_H_
#define UCUDNN_SOLVER_ILP_ILP_H_

// Integer linear programmes, as the papers state workspace division and
// assignment, and their text for general solvers. Our own methods solve both
// far faster (solver/knapsack/mckp.h, solver/assign/assign.h); general solvers
// check them, and accept side constraints that ours do not support.
//
//   min  sum_j cost_j x_j   where  least_i <= sum_j a_ij x_j <= most_i,
//                                  least_j <= x_j <= most_j
//
// All functions are pure and thread-safe, and linear in the programme's size.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
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
  std::string name = {};  // in LpText; empty: x and its number
};

struct IlpTerm {
  std::size_t variable = 0;
  std::int64_t coefficient = 0;
};

struct IlpRow {
  std::vector<IlpTerm> terms;
  std::int64_t least = -kIlpUnbounded;  // -kIlpUnbounded: none
  std::int64_t most = kIlpUnbounded;    // kIlpUnbounded: none
  std::string name = {};                // in LpText; empty: r and its number
};

struct IlpProblem {
  std::vector<IlpVariable> variables;
  std::vector<IlpRow> rows;
};

// Costs are in nanoseconds; people, and LpText, read microseconds.
inline constexpr std::int64_t kIlpCostUnit = 1000;

struct IlpSolution {
  std::vector<double> values;  // integral for integer variables
  double cost = 0;
  bool optimal = false;  // as reported by the solver
};

// Equations 1-4 of section III-C: a variable for each item of each class, in
// order. Each class has a count of one. `names` are of the classes, or empty.
IlpProblem MckpAsIlp(std::span<const MckpClass> classes, std::int64_t capacity,
                     std::span<const std::string> names = {});

// Section III-E: the first variable is the makespan; then, for
// each GPU, one for each row of its table. Ignores the GPUs' own limits and
// communication. `names` are of the GPUs, or empty.
IlpProblem AssignmentAsIlp(const AssignProblem& problem,
                           std::span<const std::string> names = {});

// The programme in CPLEX LP format, which GLPK, CBC, HiGHS, SCIP and others
// read. `title` stands in a comment. Costs are in microseconds, exactly; each
// row is divided by the greatest common divisor of its coefficients, since with
// bytes, GLPK's tolerances let wrong answers pass (tests/solver/ilp_test.cc).
// Characters that names may not have become '_'.
std::string LpText(const IlpProblem& problem, const std::string& title);

// The name of a variable there.
std::string LpName(const IlpProblem& problem, std::size_t variable);

// The sum of the costs of `values`.
double CostOf(const IlpProblem& problem, const std::vector<double>& values);

// kInternal, naming the first constraint that `values` breaks: an integer
// variable has a fraction, or a bound or row is violated. Rows of integer
// variables only are checked exactly, others to one part in 10^6.
Status CheckIlp(const IlpProblem& problem, const std::vector<double>& values);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ILP_ILP_H_
