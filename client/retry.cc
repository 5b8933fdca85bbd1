#include "client/retry.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

namespace ucudnn {
namespace {

bool IsTransient(const Attempt& attempt) {
  if (attempt.status) return false;
  const Code code = attempt.status.error().code;
  return code == Code::kUnavailable ||
         (code == Code::kDeadlineExceeded && !attempt.answered);
}

}  // namespace

Waiting Waiting::Real() {
  return {
      .now = [] { return std::chrono::steady_clock::now(); },
      .sleep = [](Milliseconds time) { std::this_thread::sleep_for(time); },
      .random =
          [] {
            thread_local std::mt19937_64 engine{std::random_device{}()};
            return std::uniform_real_distribution<double>()(engine);
          },
  };
}

Retried Retry(
    const RetryPolicy& policy, const Waiting& waiting, std::size_t endpoints,
    std::size_t* endpoint,
    const std::function<Attempt(std::size_t, Milliseconds)>& attempt) {
  const auto await_end = waiting.now() + policy.await_measurements;
  auto end = waiting.now() + policy.budget;
  const auto left = [&] {
    return std::chrono::duration_cast<Milliseconds>(end - waiting.now());
  };
  Milliseconds wait = policy.first_wait;
  std::size_t unreachable = 0;  // in this round of the list
  Retried result;
  for (;;) {
    const Milliseconds timeout =
        std::clamp(left(), Milliseconds(1), policy.attempt_timeout);
    Attempt last = attempt(*endpoint, timeout);
    ++result.attempts;
    const bool transient = IsTransient(last);
    result.status = std::move(last.status);
    result.answered = last.answered;
    if (!transient) return result;
    if (result.answered) {
      end = await_end;
    } else {
      *endpoint = (*endpoint + 1) % endpoints;
      if (++unreachable < endpoints) {
        if (left() <= Milliseconds(0)) return result;
        continue;
      }
    }
    unreachable = 0;
    const double factor = 0.5 + waiting.random() / 2;
    const Milliseconds jittered(static_cast<Milliseconds::rep>(
        factor * static_cast<double>(wait.count())));
    // A try that could only start after the budget is none.
    if (left() <= jittered) return result;
    waiting.sleep(jittered);
    if (result.answered) end = waiting.now() + policy.budget;
    wait = std::min(wait * 2, policy.longest_wait);
  }
}

}  // namespace ucudnn
