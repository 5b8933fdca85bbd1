#ifndef UCUDNN_TESTS_INTEGRATION_HISTORY_CHECK_H_
#define UCUDNN_TESTS_INTEGRATION_HISTORY_CHECK_H_

// Whether a history (history.h) is one of a service that loses nothing it
// acknowledged, stores nothing twice and never goes back:
//
// - a fact that was told or read is in each later read of its prefix, with the
//   same value, once; a count is there with the same number or a larger one;
// - if clients sent values of a key, only those are told and read, and of a
//   count no larger ones.
//
// A call is later than another if it began after the other returned.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/history/history.h"

namespace ucudnn::test {

struct Verdict {
  // One line each, the first few.
  std::vector<std::string> violations;
  std::size_t violated = 0;      // how many
  std::size_t acknowledged = 0;  // facts
  std::size_t read = 0;          // facts that were read, each time
  // Told or read keys by their first word.
  std::map<std::string, std::size_t> keys;
};

// Takes O(n log n) for n facts.
Verdict Check(const std::vector<Event>& history);

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_INTEGRATION_HISTORY_CHECK_H_
