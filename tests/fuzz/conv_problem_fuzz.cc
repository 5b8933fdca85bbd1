#include "base/conv_problem.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read is valid, countable and written as it was read.
UCUDNN_FUZZ(conv_problem, text) {
  const auto problem = ParseConvProblem(text);
  if (!problem) return CheckError(problem.error());
  UCUDNN_CHECK(ToString(*problem) == text);
  const ConvGeometry& g = problem->geometry;
  UCUDNN_CHECK(Validate(g));
  for (const std::int64_t extent : g.output()) UCUDNN_CHECK(extent >= 1);
  UCUDNN_CHECK(g.input_elements() >= 1 && g.output_elements() >= 1 &&
               g.filter_elements() >= 1);
}

}  // namespace ucudnn
