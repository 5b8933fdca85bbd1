#ifndef UCUDNN_CLIENT_RETRY_H_
#define UCUDNN_CLIENT_RETRY_H_

// When a call to a coordinator is tried again, and how long is waited before:
// pure of gRPC, and of time but through `Waiting`, so that tests do not wait.

#include <chrono>
#include <cstddef>
#include <functional>

#include "base/result.h"

namespace ucudnn {

using Milliseconds = std::chrono::milliseconds;

// Every call may be repeated safely, so whatever the transport fails at is
// tried again while the budget lasts: first at the next coordinator of the
// list at once, and after a round of the list with an exponential wait.
struct RetryPolicy {
  Milliseconds budget{15'000};          // over all tries and waits
  Milliseconds attempt_timeout{5'000};  // of one try
  Milliseconds first_wait{100};         // doubled after each round of the list
  Milliseconds longest_wait{2'000};
  // For so long also try again when the coordinator itself answers
  // UNAVAILABLE: what was asked for needs measurements that are still missing.
  // Each such answer renews the budget, so both together bound the call.
  Milliseconds await_measurements{0};
};

// Time and chance.
struct Waiting {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(Milliseconds)> sleep;
  std::function<double()> random;  // uniform in [0, 1)

  static Waiting Real();
};

// How one try ended.
struct Attempt {
  Status status;
  // Whether a coordinator gave this answer, and not the transport.
  bool answered = false;
};

// How all of them ended.
struct Retried {
  Status status;  // the last try's
  bool answered = false;
  int attempts = 0;
};

// Calls `attempt` with an endpoint, counted from `*endpoint`, and the time it
// may take, until one succeeds or is not to be repeated, or the budget is
// spent. `*endpoint` is where the last answer came from. Each wait is drawn
// from the upper half of the exponential one, so that the ranks of a cluster
// do not return in step. There is always at least one try.
Retried Retry(const RetryPolicy& policy, const Waiting& waiting,
              std::size_t endpoints, std::size_t* endpoint,
              const std::function<Attempt(std::size_t endpoint,
                                          Milliseconds timeout)>& attempt);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RETRY_H_
