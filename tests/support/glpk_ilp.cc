#include "tests/support/glpk_ilp.h"

#include <glpk.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace ucudnn {
namespace {

constexpr int kScaledBits = 10;

// The power of two that brings numbers up to `largest` to about a thousand.
double UnitOf(std::int64_t largest) {
  const auto bits =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest)));
  return std::ldexp(1.0, std::max(0, bits - kScaledBits));
}

int BoundType(bool low, bool high, bool equal) {
  if (low && high) return equal ? GLP_FX : GLP_DB;
  if (low) return GLP_LO;
  return high ? GLP_UP : GLP_FR;
}

struct DeleteProblem {
  void operator()(glp_prob* problem) const { glp_delete_prob(problem); }
};
using Problem = std::unique_ptr<glp_prob, DeleteProblem>;

Problem Load(const IlpProblem& problem, bool careful) {
  Problem loaded(glp_create_prob());
  glp_prob* const p = loaded.get();
  glp_set_obj_dir(p, GLP_MIN);
  std::int64_t largest_cost = 1;
  for (const IlpVariable& variable : problem.variables) {
    largest_cost = std::max(largest_cost, std::abs(variable.cost));
  }
  const double cost_unit = careful ? UnitOf(largest_cost) : 1;
  glp_add_cols(p, static_cast<int>(problem.variables.size()));
  for (std::size_t j = 0; j < problem.variables.size(); ++j) {
    const IlpVariable& variable = problem.variables[j];
    const int column = static_cast<int>(j) + 1;
    glp_set_obj_coef(p, column, static_cast<double>(variable.cost) / cost_unit);
    const bool high = variable.most != kIlpUnbounded;
    if (variable.integer && variable.least == 0 && variable.most == 1) {
      glp_set_col_kind(p, column, GLP_BV);
    } else {
      glp_set_col_bnds(p, column,
                       BoundType(true, high, variable.least == variable.most),
                       static_cast<double>(variable.least),
                       static_cast<double>(variable.most));
      glp_set_col_kind(p, column, variable.integer ? GLP_IV : GLP_CV);
    }
  }
  glp_add_rows(p, static_cast<int>(problem.rows.size()));
  std::vector<int> columns;
  std::vector<double> coefficients;
  for (std::size_t i = 0; i < problem.rows.size(); ++i) {
    const IlpRow& row = problem.rows[i];
    std::int64_t largest = 1;
    columns.assign(1, 0);
    coefficients.assign(1, 0);
    for (const IlpTerm& term : row.terms) {
      largest = std::max(largest, std::abs(term.coefficient));
    }
    const double unit = careful ? UnitOf(largest) : 1;
    for (const IlpTerm& term : row.terms) {
      columns.push_back(static_cast<int>(term.variable) + 1);
      coefficients.push_back(static_cast<double>(term.coefficient) / unit);
    }
    const int at = static_cast<int>(i) + 1;
    glp_set_mat_row(p, at, static_cast<int>(columns.size()) - 1, columns.data(),
                    coefficients.data());
    const bool low = row.least != -kIlpUnbounded;
    const bool high = row.most != kIlpUnbounded;
    glp_set_row_bnds(p, at, BoundType(low, high, row.least == row.most),
                     static_cast<double>(row.least) / unit,
                     static_cast<double>(row.most) / unit);
  }
  return loaded;
}

class GlpkSolver final : public IlpSolver {
 public:
  explicit GlpkSolver(const GlpkOptions& options) : options_(options) {}

  std::string_view name() const override {
    return options_.careful ? "GLPK" : "GLPK unscaled";
  }

  Result<IlpSolution> Solve(const IlpProblem& problem,
                            std::int64_t time_limit_ms) override {
    glp_term_out(GLP_OFF);
    const Problem loaded = Load(problem, options_.careful);
    glp_prob* const p = loaded.get();
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    if (time_limit_ms > 0) {
      parameters.tm_lim = static_cast<int>(
          std::min<std::int64_t>(time_limit_ms, 1'000'000'000));
    }
    int status = 0;
    if (options_.careful) {
      glp_scale_prob(p, GLP_SF_AUTO);
      parameters.presolve = GLP_ON;
      parameters.tol_int = 1e-9;
      parameters.tol_obj = 1e-9;
      parameters.mip_gap = 0;
    } else {
      status = glp_simplex(p, nullptr);
    }
    if (status == 0) status = glp_intopt(p, &parameters);
    if (status == GLP_ENOPFS || status == GLP_ENODFS) {
      return Fail(Code::kFailedPrecondition, "{}: no solution", name());
    }
    if (status != 0 && status != GLP_ETMLIM && status != GLP_EMIPGAP) {
      return Fail(Code::kInternal, "{} fails with {}", name(), status);
    }
    const int found = glp_mip_status(p);
    if (found == GLP_NOFEAS) {
      return Fail(Code::kFailedPrecondition, "{}: no solution", name());
    }
    if (found != GLP_OPT && found != GLP_FEAS) {
      return Fail(status == GLP_ETMLIM ? Code::kDeadlineExceeded
                                       : Code::kFailedPrecondition,
                  "{} found no solution", name());
    }
    IlpSolution solution;
    solution.optimal = found == GLP_OPT && status == 0;
    for (std::size_t j = 0; j < problem.variables.size(); ++j) {
      double value = glp_mip_col_val(p, static_cast<int>(j) + 1);
      if (problem.variables[j].integer) value = std::nearbyint(value);
      solution.values.push_back(value);
    }
    solution.cost = CostOf(problem, solution.values);
    UCUDNN_RETURN_IF_ERROR(CheckIlp(problem, solution.values));
    return solution;
  }

 private:
  GlpkOptions options_;
};

}  // namespace

std::unique_ptr<IlpSolver> MakeGlpkSolver(const GlpkOptions& options) {
  return std::make_unique<GlpkSolver>(options);
}

}  // namespace ucudnn
