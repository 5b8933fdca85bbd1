// Solves an integer programme by GLPK, as the papers do:
//
//   ucudnn solve wd ... --write-lp wd.lp && ucudnn-glpk wd.lp
//
// Prints a JSON object: "status" (optimal, feasible, infeasible, undecided),
// "objective", "variables", "rows", "milliseconds" that solving took, and
// "values", the variables that are not 0 by name. Unlike `glpsol --lp` it asks
// for tolerances of 1e-9 and no gap. This source is under the Apache License;
// the program, linked with GLPK, is under the GNU General Public License,
// version 3 or later.

#include <fmt/format.h>
#include <glpk.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/service/completion.h"
#include "base/service/help.h"

namespace {

// Keeps what GLPK would print, for messages.
int Keep(void* kept, const char* text) {
  static_cast<std::string*>(kept)->append(text);
  return 1;
}

const char* StatusOf(int failed, int found) {
  if (failed == GLP_ENOPFS || found == GLP_NOFEAS) return "infeasible";
  if (found == GLP_FEAS) return "feasible";
  return failed == 0 && found == GLP_OPT ? "optimal" : "undecided";
}

int Run(const std::string& file, int seconds) {
  std::string said;
  glp_term_hook(Keep, &said);
  const std::unique_ptr<glp_prob, void (*)(glp_prob*)> problem(
      glp_create_prob(), glp_delete_prob);
  glp_prob* const p = problem.get();
  if (glp_read_lp(p, nullptr, file.c_str()) != 0) {
    fmt::print(stderr, "{}: GLPK cannot read it:\n{}", file, said);
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  glp_scale_prob(p, GLP_SF_AUTO);
  glp_iocp parameters;
  glp_init_iocp(&parameters);
  parameters.presolve = GLP_ON;
  parameters.tol_int = 1e-9;
  parameters.tol_obj = 1e-9;
  parameters.mip_gap = 0;
  parameters.tm_lim = seconds * 1000;
  const int failed = glp_intopt(p, &parameters);
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  if (failed != 0 && failed != GLP_ETMLIM && failed != GLP_EMIPGAP &&
      failed != GLP_ENOPFS) {
    fmt::print(stderr, "{}: GLPK fails with {}:\n{}", file, failed, said);
    return 1;
  }
  const char* const status = StatusOf(failed, glp_mip_status(p));
  nlohmann::ordered_json answer = {{"status", status},
                                   {"objective", nullptr},
                                   {"variables", glp_get_num_cols(p)},
                                   {"rows", glp_get_num_rows(p)},
                                   {"milliseconds", took.count()},
                                   {"values", nlohmann::json::object()}};
  if (glp_mip_status(p) == GLP_OPT || glp_mip_status(p) == GLP_FEAS) {
    answer["objective"] = glp_mip_obj_val(p);
    for (int j = 1; j <= glp_get_num_cols(p); ++j) {
      const double value = glp_mip_col_val(p, j);
      if (value != 0) answer["values"][glp_get_col_name(p, j)] = value;
    }
  }
  fmt::print("{}\n", answer.dump(2));
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Solve an integer programme in CPLEX LP format by GLPK, for `ucudnn "
      "solve "
      "--solver glpk`");
  app.set_version_flag("--version", UCUDNN_VERSION);
  ucudnn::ShowDefaults(app);
  std::string file;
  int seconds = 60;
  app.add_option("file", file, "The programme")
      ->option_text("FILE")
      ->required();
  app.add_option("--time-limit", seconds, "Seconds that GLPK may take")
      ->option_text("SECONDS")
      ->check(CLI::Range(1, 86'400));
  if (ucudnn::AnswerCompletion(app, argc, argv)) return 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ucudnn::EndParsing(app, error, argc, argv);
  }
  return Run(file, seconds);
}
