#ifndef UCUDNN_TESTS_SUPPORT_CBC_ILP_H_
#define UCUDNN_TESTS_SUPPORT_CBC_ILP_H_

// CBC behind the port for integer programmes: a second opinion in tests and
// benchmarks.

#include <memory>

#include "tests/support/ilp_solver.h"

namespace ucudnn::test {

std::unique_ptr<IlpSolver> MakeCbcSolver();

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_CBC_ILP_H_
