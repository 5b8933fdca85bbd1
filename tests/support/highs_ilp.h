#ifndef UCUDNN_TESTS_SUPPORT_HIGHS_ILP_H_
#define UCUDNN_TESTS_SUPPORT_HIGHS_ILP_H_

// HiGHS behind the port for integer programmes, as Debian's scipy carries it:
// a second opinion in tests and benchmarks. It runs in a Python process of its
// own, which is started once.

#include <memory>

#include "tests/support/ilp.h"

namespace ucudnn::testing {

class HighsSolver : public IlpSolver {
 public:
  // What the last call of HiGHS took by itself, without the way to it.
  virtual double last_seconds() const = 0;
};

// Null where Debian's Python or its scipy (python3-scipy) is not installed.
std::unique_ptr<HighsSolver> MakeHighsSolver();

}  // namespace ucudnn::testing

#endif  // UCUDNN_TESTS_SUPPORT_HIGHS_ILP_H_
