#ifndef UCUDNN_TESTS_SUPPORT_MPIRUN_H_
#define UCUDNN_TESTS_SUPPORT_MPIRUN_H_

// Runs a program on real MPI ranks of this machine, also as root and with more
// ranks than cores.

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace ucudnn {

// NAME and value of each variable that ranks need here. Their files are in a
// folder of this process's own: two mpiruns that begin and end at once fail by
// the folder that they would share.
inline std::map<std::string, std::string> RankEnvironment() {
  static const test::TemporaryFolder folder;
  return {{"OMPI_MCA_orte_tmpdir_base", folder.path()},
          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
          {"OMPI_MCA_mpi_yield_when_idle", "1"},
          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
          {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
}

struct RankedRun {
  int exit_status = -1;  // 124: it exceeded the time limit
  std::string output;    // of all ranks, both streams
};

// Words are quoted for the shell. `environment` holds NAME=value.
inline RankedRun RunRanks(int ranks, const std::vector<std::string>& command,
                          const std::vector<std::string>& environment,
                          const std::string& log, int seconds = 120) {
  const auto quote = [](const std::string& word) {
    std::string quoted = "'";
    for (const char c : word) {
      quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
  };
  std::string line = "env";
  for (const auto& [name, value] : RankEnvironment()) {
    line += fmt::format(" {}={}", name, value);
  }
  for (const std::string& variable : environment) line += " " + quote(variable);
  line += fmt::format(" timeout {} mpirun -n {}", seconds, ranks);
  for (const std::string& word : command) line += " " + quote(word);
  line += " >" + quote(log) + " 2>&1 </dev/null";
  RankedRun run;
  const int status = std::system(line.c_str());
  run.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream file(log);
  run.output.assign(std::istreambuf_iterator<char>(file), {});
  return run;
}

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_MPIRUN_H_
