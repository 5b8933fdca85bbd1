#include "proto/retry.h"

#include <algorithm>
#include <utility>

namespace ucudnn {
namespace {

// Whether the coordinator answered that measurements are being made.
bool IsAwaited(const Attempt& attempt) {
  return !attempt.status && attempt.answered &&
         attempt.status.error().code == Code::kAborted;
}

bool IsTransient(const Attempt& attempt, const RetryPolicy& policy) {
  if (attempt.status) return false;
  const Code code = attempt.status.error().code;
  return code == Code::kUnavailable || IsAwaited(attempt) ||
         (code == Code::kDeadlineExceeded && !attempt.answered &&
          policy.work_timeout == Milliseconds(0));
}

Milliseconds Rounded(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<Milliseconds>(time);
}

}  // namespace

RetryPolicy RetryPolicy::OneRound(Milliseconds budget) {
  RetryPolicy policy;
  policy.budget = budget;
  policy.attempt_timeout = budget;
  // Longer than the budget, so that there is no second round.
  policy.first_wait = budget * 2 + Milliseconds(2);
  return policy;
}

RetryPolicy RetryPolicy::LongWork() {
  RetryPolicy policy;
  policy.work_timeout = std::chrono::minutes(30);
  return policy;
}

Waiting Waiting::Real(std::stop_token stop) {
  return {
      .now = [] { return std::chrono::steady_clock::now(); },
      .sleep = [stop =
                    std::move(stop)](Milliseconds time) { Pause(stop, time); },
      .random = Chance,
  };
}

Retried Retry(
    const RetryPolicy& policy, const Waiting& waiting, std::size_t endpoints,
    std::size_t* endpoint,
    const std::function<Attempt(std::size_t, Milliseconds)>& attempt) {
  const auto await_end = waiting.now() + policy.await_measurements;
  auto end = waiting.now() + policy.budget;
  const auto left = [&] { return Rounded(end - waiting.now()); };
  Backoff backoff(policy.first_wait, policy.longest_wait);
  std::size_t unreachable = 0;  // in this round of the list
  Retried result;
  for (;;) {
    const Milliseconds timeout =
        policy.work_timeout > Milliseconds(0)
            ? policy.work_timeout
            : std::clamp(left(), Milliseconds(1), policy.attempt_timeout);
    const auto start = waiting.now();
    Attempt last = attempt(*endpoint, timeout);
    ++result.attempts;
    const auto took = waiting.now() - start;
    if (policy.work_timeout > Milliseconds(0) &&
        took > policy.attempt_timeout) {
      end += took - policy.attempt_timeout;
    }
    const bool transient = IsTransient(last, policy);
    const bool awaited = IsAwaited(last);
    result.status = std::move(last.status);
    result.answered = last.answered;
    if (!transient) return result;
    if (awaited) {
      end = await_end;
    } else {
      *endpoint = (*endpoint + 1) % endpoints;
      if (++unreachable < endpoints) {
        if (left() <= Milliseconds(0)) return result;
        continue;
      }
    }
    unreachable = 0;
    const Milliseconds wait = backoff.Next(waiting.random());
    // No attempt starts after the budget is spent.
    if (left() <= wait) return result;
    waiting.sleep(wait);
    if (awaited) end = waiting.now() + policy.budget;
  }
}

}  // namespace ucudnn
