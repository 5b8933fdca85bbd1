#ifndef UCUDNN_CLIENT_CLI_SOLVE_GENERAL_SOLVER_H_
#define UCUDNN_CLIENT_CLI_SOLVE_GENERAL_SOLVER_H_

// The papers' integer programmes given to a general solver:
//   ucudnn solve wd ... --write-lp wd.lp      for glpsol, cbc, highs, scip
//   ucudnn solve wd ... --solver glpk         answers with GLPK's solution
// GLPK is in a program of its own, ucudnn-glpk, because of its licence.

#include <optional>
#include <string>

#include "base/result.h"
#include "client/cli/command.h"
#include "solver/ilp/ilp.h"

namespace ucudnn::ctl {

struct GeneralSolver {
  std::string lp_file;  // empty: writes none
  bool glpk = false;
  int seconds = 60;  // that GLPK may take
};

// Adds --write-lp, --solver and --time-limit.
void AddGeneralSolverOptions(CLI::App* command, GeneralSolver* solver);

// Writes the programme where the options ask for it. The solution of GLPK,
// checked against the programme, if they ask for that; else nothing. `ours` is
// the least cost.
//
// Errors: of ReplaceFile; kUnavailable if there is no ucudnn-glpk;
// kDeadlineExceeded if GLPK has not proven its answer in time; kInternal if
// GLPK fails, or if its answer breaks a constraint or costs other than `ours`
// by more than one part in 10^6.
Result<std::optional<IlpSolution>> Consult(const GeneralSolver& solver,
                                           const IlpProblem& problem,
                                           const std::string& title,
                                           double ours);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SOLVE_GENERAL_SOLVER_H_
