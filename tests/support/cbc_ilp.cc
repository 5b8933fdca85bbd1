#include "tests/support/cbc_ilp.h"

#include <Cbc_C_Interface.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

namespace ucudnn::test {
namespace {

class CbcSolver final : public IlpSolver {
 public:
  std::string_view name() const override { return "CBC"; }

  Result<IlpSolution> Solve(const IlpProblem& problem,
                            std::int64_t time_limit_ms) override {
    // By columns, each row divided by a power of two (bytes become MiB).
    std::vector<double> units;
    std::vector<double> row_least;
    std::vector<double> row_most;
    std::vector<std::vector<std::pair<int, double>>> columns(
        problem.variables.size());
    for (std::size_t i = 0; i < problem.rows.size(); ++i) {
      const IlpRow& row = problem.rows[i];
      double largest = 1;
      for (const IlpTerm& term : row.terms) {
        largest =
            std::max(largest, std::abs(static_cast<double>(term.coefficient)));
      }
      const double unit =
          std::exp2(std::max(0.0, std::floor(std::log2(largest)) - 10));
      for (const IlpTerm& term : row.terms) {
        columns[term.variable].emplace_back(
            static_cast<int>(i), static_cast<double>(term.coefficient) / unit);
      }
      row_least.push_back(row.least == -kIlpUnbounded
                              ? -DBL_MAX
                              : static_cast<double>(row.least) / unit);
      row_most.push_back(row.most == kIlpUnbounded
                             ? DBL_MAX
                             : static_cast<double>(row.most) / unit);
    }
    std::vector<int> start = {0};
    std::vector<int> index;
    std::vector<double> value;
    std::vector<double> least;
    std::vector<double> most;
    std::vector<double> cost;
    for (std::size_t j = 0; j < columns.size(); ++j) {
      for (const auto& [row, coefficient] : columns[j]) {
        index.push_back(row);
        value.push_back(coefficient);
      }
      start.push_back(static_cast<int>(index.size()));
      const IlpVariable& variable = problem.variables[j];
      least.push_back(static_cast<double>(variable.least));
      most.push_back(variable.most == kIlpUnbounded
                         ? DBL_MAX
                         : static_cast<double>(variable.most));
      cost.push_back(static_cast<double>(variable.cost));
    }
    const std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> model(
        Cbc_newModel(), Cbc_deleteModel);
    Cbc_Model* const m = model.get();
    Cbc_loadProblem(m, static_cast<int>(columns.size()),
                    static_cast<int>(problem.rows.size()), start.data(),
                    index.data(), value.data(), least.data(), most.data(),
                    cost.data(), row_least.data(), row_most.data());
    for (std::size_t j = 0; j < columns.size(); ++j) {
      if (problem.variables[j].integer) {
        Cbc_setInteger(m, static_cast<int>(j));
      }
    }
    Cbc_setLogLevel(m, 0);
    Cbc_setParameter(m, "ratioGap", "0");
    Cbc_setParameter(m, "allowableGap", "0");
    // With preprocessing, CBC 2.10.8 returned a suboptimal solution as optimal
    // for one of 1500 knapsacks of nine classes.
    Cbc_setParameter(m, "preprocess", "off");
    if (time_limit_ms > 0) {
      const std::string seconds =
          std::to_string(static_cast<double>(time_limit_ms) / 1e3);
      Cbc_setParameter(m, "seconds", seconds.c_str());
    }
    Cbc_solve(m);
    if (Cbc_isProvenInfeasible(m) != 0) {
      return Fail(Code::kFailedPrecondition, "CBC: no solution");
    }
    if (Cbc_bestSolution(m) == nullptr) {
      return Fail(Code::kDeadlineExceeded, "CBC found no solution");
    }
    IlpSolution solution;
    solution.optimal = Cbc_isProvenOptimal(m) != 0;
    const double* const found = Cbc_bestSolution(m);
    for (std::size_t j = 0; j < columns.size(); ++j) {
      const double x =
          problem.variables[j].integer ? std::nearbyint(found[j]) : found[j];
      solution.values.push_back(x);
    }
    solution.cost = CostOf(problem, solution.values);
    UCUDNN_RETURN_IF_ERROR(CheckIlp(problem, solution.values));
    return solution;
  }
};

}  // namespace

std::unique_ptr<IlpSolver> MakeCbcSolver() {
  return std::make_unique<CbcSolver>();
}

}  // namespace ucudnn::test
