#ifndef UCUDNN_COORDINATOR_PLANNING_SOLVE_UNTIL_H_
#define UCUDNN_COORDINATOR_PLANNING_SOLVE_UNTIL_H_

#include <chrono>
#include <future>
#include <stop_token>
#include <utility>

#include "base/result.h"
#include "base/service/call.h"

namespace ucudnn {

// What `solve(stop)` returns, a Result, on a thread of its own, so that this
// one can stop it: at `deadline`, or once the call is not wanted any more; then
// the error of Call::Check.
template <class Solve>
auto SolveUntil(std::chrono::steady_clock::time_point deadline, Solve solve)
    -> decltype(solve(std::stop_token())) {
  using SteadyClock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook{50};
  UCUDNN_RETURN_IF_ERROR(Call::Check());
  std::stop_source stop;
  if (SteadyClock::now() >= deadline) stop.request_stop();
  auto solved =
      std::async(std::launch::async, [&] { return solve(stop.get_token()); });
  Status wanted;
  while (solved.wait_for(kLook) != std::future_status::ready) {
    wanted = Call::Check();
    if (!wanted || SteadyClock::now() >= deadline) stop.request_stop();
  }
  auto answer = solved.get();
  if (!wanted) return tl::unexpected<Error>(std::move(wanted).error());
  return answer;
}

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_SOLVE_UNTIL_H_
