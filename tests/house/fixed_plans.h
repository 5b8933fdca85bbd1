#ifndef UCUDNN_TESTS_HOUSE_FIXED_PLANS_H_
#define UCUDNN_TESTS_HOUSE_FIXED_PLANS_H_

#include <string>

namespace ucudnn::test {

// The solvers' plans of fixed inputs as text, a paragraph for each input. Every
// search ends by itself or after a number of nodes, so the text is the same on
// every machine.
std::string FixedPlans();

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_HOUSE_FIXED_PLANS_H_
