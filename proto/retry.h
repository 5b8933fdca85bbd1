#ifndef UCUDNN_PROTO_RETRY_H_
#define UCUDNN_PROTO_RETRY_H_

// When to retry a call to a coordinator, and how long to wait first.
// Independent of gRPC; time comes only through `Waiting`, so that tests do not
// wait.

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>

#include "base/result.h"
#include "base/service/backoff.h"

namespace ucudnn {

// Every call is safe to repeat, so transport failures are retried while the
// budget lasts: at once with the next coordinator in the list, and after each
// round of the list with exponential backoff.
struct RetryPolicy {
  Milliseconds budget{15'000};          // for all attempts and waits
  Milliseconds attempt_timeout{5'000};  // of one attempt
  // The timeout of one attempt at a call that may keep the coordinator busy for
  // long, such as making a plan; zero for other calls. There is no second
  // attempt after this timeout: it would run beside the first, which the
  // coordinator is still working on. Of such an attempt, only attempt_timeout
  // counts against the budget.
  Milliseconds work_timeout{0};
  Milliseconds first_wait{100};  // doubled after each round of the list
  Milliseconds longest_wait{2'000};
  // How long to keep retrying when the coordinator itself answers UNAVAILABLE
  // because measurements are still missing. Each such answer renews the budget,
  // so both together bound the call.
  Milliseconds await_measurements{0};

  // Tries each coordinator in the list once, all within `budget`.
  static RetryPolicy OneRound(Milliseconds budget);
  // For calls that may keep the coordinator busy for long.
  static RetryPolicy LongWork();
};

// Sources of time and randomness.
struct Waiting {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(Milliseconds)> sleep;
  std::function<double()> random;  // uniform in [0, 1)

  // Sleeps end early when a stop is requested.
  static Waiting Real(std::stop_token stop = {});
};

// The outcome of one attempt.
struct Attempt {
  Status status;
  // True if a coordinator answered, false if the transport failed.
  bool answered = false;
};

// The outcome of all attempts.
struct Retried {
  Status status;  // of the last attempt
  bool answered = false;
  int attempts = 0;
};

// Calls `attempt` with the index of an endpoint, beginning at `*endpoint`, and
// a timeout, until one succeeds or fails for good, or the budget is spent. Sets
// `*endpoint` to the one that answered last. Waits are jittered
// (base/service/backoff.h). There is always at least one attempt.
Retried Retry(const RetryPolicy& policy, const Waiting& waiting,
              std::size_t endpoints, std::size_t* endpoint,
              const std::function<Attempt(std::size_t endpoint,
                                          Milliseconds timeout)>& attempt);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_RETRY_H_
