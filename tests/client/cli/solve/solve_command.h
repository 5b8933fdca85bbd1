#ifndef UCUDNN_TESTS_CLIENT_CLI_SOLVE_SOLVE_COMMAND_H_
#define UCUDNN_TESTS_CLIENT_CLI_SOLVE_SOLVE_COMMAND_H_

// Runs `ucudnn solve` as a child process.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {

// The header of a test's own profile (base/profile.h).
inline constexpr char kProfileHeader[] =
    "device,network,layer,op,precision,layout,batch,algorithm,math,"
    "workspace_bytes,time_us\n";

// A profile of one convolution, "a", of which FAST errs by 0.01, beyond what
// rounding explains, or by what is not known.
inline void WriteProfileOfUnlikeErrors(const std::string& path, int batch,
                                       bool known) {
  std::string header(kProfileHeader);
  header.insert(header.size() - 1, ",error");
  std::ofstream(path) << header << "d,n,a,forward,FP32,NCHW," << batch
                      << ",FAST,FMA,0,10," << (known ? "0.01" : "")
                      << "\nd,n,a,forward,FP32,NCHW," << batch
                      << ",EXACT,FMA,0,20,1e-6\n";
}

inline test::Finished Solve(const std::string& problem,
                            std::vector<std::string> flags) {
  flags.insert(flags.begin(), {test::ProgramPath("ucudnn"), "solve", problem});
  return test::Run(flags);
}

// The command's JSON answer; the test fails if there is none.
inline nlohmann::json SolveJson(const std::string& problem,
                                std::vector<std::string> flags) {
  flags.insert(flags.end(), {"-o", "json"});
  const test::Finished run = Solve(problem, flags);
  EXPECT_EQ(run.status, 0) << run.err;
  return nlohmann::json::parse(run.out);
}

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_CLIENT_CLI_SOLVE_SOLVE_COMMAND_H_
