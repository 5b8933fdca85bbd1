#include "client/cli/solve/general_solver.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/files/file.h"

namespace ucudnn::ctl {
namespace {

constexpr const char* kProgram = "ucudnn-glpk";

// Runs ucudnn-glpk, which stands beside this program or in PATH, and returns
// what it prints.
Result<std::string> RunGlpk(const std::string& lp_file, int seconds) {
  std::error_code missing;
  std::string program =
      std::filesystem::read_symlink("/proc/self/exe", missing).parent_path() /
      kProgram;
  if (missing || access(program.c_str(), X_OK) != 0) program = kProgram;
  const std::string limit = std::to_string(seconds);
  const std::array<const char*, 5> arguments = {
      kProgram, "--time-limit", limit.c_str(), lp_file.c_str(), nullptr};

  std::array<int, 2> ends = {};
  if (pipe(ends.data()) != 0) {
    return Fail(Code::kInternal, "pipe: {}", std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, program.c_str(), &actions, nullptr,
                   const_cast<char**>(arguments.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  if (failed == 0) {
    std::array<char, 4096> part = {};
    for (;;) {
      const ssize_t n = read(ends[0], part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      output.append(part.data(), static_cast<std::size_t>(n));
    }
  }
  close(ends[0]);
  if (failed != 0) {
    return Fail(Code::kUnavailable,
                "--solver glpk needs the program {} (package {}): {}", kProgram,
                kProgram, std::strerror(failed));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    return Fail(Code::kInternal, "{} fails; its message is above", kProgram);
  }
  return output;
}

Result<IlpSolution> SolveByGlpk(const IlpProblem& problem,
                                const std::string& lp_text, int seconds) {
  std::string path =
      std::filesystem::temp_directory_path() / "ucudnn-XXXXXX.lp";
  const int file = mkstemps(path.data(), 3);
  if (file < 0) {
    return Fail(Code::kInternal, "{}: {}", path, std::strerror(errno));
  }
  close(file);
  Result<std::string> output = [&]() -> Result<std::string> {
    UCUDNN_RETURN_IF_ERROR(ReplaceFile(path, lp_text));
    return RunGlpk(path, seconds);
  }();
  std::filesystem::remove(path);
  if (!output) return tl::unexpected<Error>(std::move(output).error());
  const auto answer = nlohmann::json::parse(*output, nullptr, false);
  if (answer.is_discarded()) {
    return Fail(Code::kInternal, "{} answers '{}'", kProgram, *output);
  }
  const std::string status = answer["status"];
  if (status != "optimal") {
    return Fail(Code::kDeadlineExceeded,
                "GLPK has proven no answer in {} s ({}); --time-limit gives it "
                "more, --solver builtin needs none",
                seconds, status);
  }
  const auto values =
      answer["values"].get<std::unordered_map<std::string, double>>();
  IlpSolution solution;
  solution.optimal = true;
  for (std::size_t j = 0; j < problem.variables.size(); ++j) {
    const auto found = values.find(LpName(problem, j));
    double value = found == values.end() ? 0 : found->second;
    if (problem.variables[j].integer) value = std::nearbyint(value);
    solution.values.push_back(value);
  }
  solution.cost = CostOf(problem, solution.values);
  const Status checked = CheckIlp(problem, solution.values);
  if (!checked) return Within("GLPK's answer", checked.error());
  return solution;
}

}  // namespace

void AddGeneralSolverOptions(CLI::App* command, GeneralSolver* solver) {
  AddTextOption(command, "--write-lp", "FILE", &solver->lp_file,
                "Also write the papers' integer programme, in CPLEX LP "
                "format with microseconds");
  command
      ->add_option_function<std::string>(
          "--solver",
          [solver](const std::string& name) { solver->glpk = name == "glpk"; },
          "Who solves it: ucudnn, or GLPK by the program ucudnn-glpk")
      ->check(CLI::IsMember({"builtin", "glpk"}))
      ->default_str("builtin");
  command
      ->add_option("--time-limit", solver->seconds,
                   "Seconds that GLPK may take")
      ->option_text("SECONDS")
      ->check(CLI::Range(1, 86'400));
}

Result<std::optional<IlpSolution>> Consult(const GeneralSolver& solver,
                                           const IlpProblem& problem,
                                           const std::string& title,
                                           double ours) {
  if (solver.lp_file.empty() && !solver.glpk) return std::nullopt;
  const std::string text = LpText(problem, title);
  if (!solver.lp_file.empty()) {
    UCUDNN_RETURN_IF_ERROR(WriteText(solver.lp_file, text));
  }
  if (!solver.glpk) return std::nullopt;
  UCUDNN_ASSIGN_OR_RETURN(IlpSolution solution,
                          SolveByGlpk(problem, text, solver.seconds));
  if (std::abs(solution.cost - ours) > 1e-6 * ours) {
    return Fail(Code::kInternal,
                "GLPK calls {:.3f} us optimal, but {:.3f} us is; please report "
                "this with the file of --write-lp",
                solution.cost / kIlpCostUnit, ours / kIlpCostUnit);
  }
  return solution;
}

}  // namespace ucudnn::ctl
