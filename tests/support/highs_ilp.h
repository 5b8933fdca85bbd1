#ifndef UCUDNN_TESTS_SUPPORT_HIGHS_ILP_H_
#define UCUDNN_TESTS_SUPPORT_HIGHS_ILP_H_

// HiGHS behind the port for integer programmes, as Debian's scipy carries it:
// a second opinion in tests and benchmarks. It runs in a separate Python
// process, which is started once.

#include <memory>

#include "tests/support/ilp_solver.h"

namespace ucudnn::test {

class HighsSolver : public IlpSolver {
 public:
  // The time of the last call inside HiGHS, without communication.
  virtual double last_seconds() const = 0;
};

// Null if Debian's Python or its scipy (python3-scipy) is not installed.
std::unique_ptr<HighsSolver> MakeHighsSolver();

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_HIGHS_ILP_H_
