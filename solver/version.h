#ifndef UCUDNN_SOLVER_VERSION_H_
#define UCUDNN_SOLVER_VERSION_H_

namespace ucudnn {

// The version of all code that turns measurements into plans: solver/, and how
// the service asks it. Whoever keeps plans keeps them under this version, and
// leaves plans of other versions alone.
//
// Raise it with every change after which the same inputs may have another plan,
// whether that is better or worse. tests/house/golden_plans_test.cc fails until
// it is raised; its first lines say how to update the plans it compares.
inline constexpr int kSolverVersion = 5;

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_VERSION_H_
