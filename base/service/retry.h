#ifndef UCUDNN_BASE_SERVICE_RETRY_H_
#define UCUDNN_BASE_SERVICE_RETRY_H_

// When a call to a coordinator is tried again, and how long to wait before.
// Knows nothing of gRPC, and of time only through `Waiting`, so that tests do
// not wait.

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>

#include "base/service/backoff.h"
#include "base/result.h"

namespace ucudnn {

// Every call may be repeated safely, so whatever the transport fails at is
// tried again while the budget lasts: first at the next coordinator of the
// list at once, and after a round of the list with an exponential wait.
struct RetryPolicy {
  Milliseconds budget{15'000};          // over all tries and waits
  Milliseconds attempt_timeout{5'000};  // of one try
  // The timeout of one try at a call that may keep the coordinator busy for
  // long, such as making a plan; zero if the call is none of these. A second
  // try would run beside the first, which the coordinator goes on with, so
  // there is none after this timeout. Of such a try only attempt_timeout counts
  // against the budget.
  Milliseconds work_timeout{0};
  Milliseconds first_wait{100};  // doubled after each round of the list
  Milliseconds longest_wait{2'000};
  // For so long also try again when the coordinator itself answers
  // UNAVAILABLE: what was asked for needs measurements that are still missing.
  // Each such answer renews the budget, so both together bound the call.
  Milliseconds await_measurements{0};

  // Tries each coordinator of the list once, in `budget` together.
  static RetryPolicy OneRound(Milliseconds budget);
  // For calls that may keep the coordinator busy for long.
  static RetryPolicy LongWork();
};

// Time and chance.
struct Waiting {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(Milliseconds)> sleep;
  std::function<double()> random;  // uniform in [0, 1)

  // Sleeps end early when a stop is requested.
  static Waiting Real(std::stop_token stop = {});
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
// spent. `*endpoint` is where the last answer came from. Waits are jittered
// (base/service/backoff.h). There is always at least one try.
Retried Retry(const RetryPolicy& policy, const Waiting& waiting,
              std::size_t endpoints, std::size_t* endpoint,
              const std::function<Attempt(std::size_t endpoint,
                                          Milliseconds timeout)>& attempt);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_RETRY_H_
