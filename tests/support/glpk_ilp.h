#ifndef UCUDNN_TESTS_SUPPORT_GLPK_ILP_H_
#define UCUDNN_TESTS_SUPPORT_GLPK_ILP_H_

// GLPK behind the port. GLPK is under the GPL, so only this target
// (ucudnn::glpk) and test programs may link it.

#include <memory>

#include "tests/support/ilp_solver.h"

namespace ucudnn {

struct GlpkOptions {
  // Divides each row and the costs by a power of two so that their largest
  // number is about a thousand (bytes become MiB), lets GLPK scale the rest
  // and presolve, and asks for no gap. Off: unscaled numbers and GLPK's
  // defaults, in the plain call sequence of simplex and branch and cut.
  bool careful = true;
};

// The answer is checked against the unscaled problem (CheckIlp). One solver
// belongs to one thread: GLPK keeps its environment by thread.
std::unique_ptr<IlpSolver> MakeGlpkSolver(const GlpkOptions& options = {});

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_GLPK_ILP_H_
