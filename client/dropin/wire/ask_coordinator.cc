#include "client/dropin/wire/ask_coordinator.h"

#include <utility>

#include "client/dropin/wire/grpc_call.h"

namespace ucudnn {

Result<KnownElsewhere> CoordinatorAsker::Ask(const std::string& kind,
                                             const ConvProblem& problem) {
  if (options_.now() < silent_until_) {
    return Fail(Code::kUnavailable, "no coordinator answered a moment ago");
  }
  const std::string request = EncodeProfileRequest(kind, problem);
  const Deadline deadline = std::chrono::steady_clock::now() + options_.within;
  Error last;
  for (std::size_t i = 0; i < coordinators_.size(); ++i) {
    // Leave time for the others if this one does not answer.
    const auto now = std::chrono::steady_clock::now();
    const auto share =
        (deadline - now) / static_cast<std::int64_t>(coordinators_.size() - i);
    const std::string& coordinator = coordinators_[current_];
    auto answer =
        CallGrpc(coordinator, "/ucudnn.v1.CoordinatorService/GetProblemProfile",
                 request, now + share);
    if (answer) {
      if (auto known = DecodeProblemProfile(*answer))
        return known;
      else
        last = std::move(known).error();
    } else {
      last = std::move(answer).error();
    }
    last.message = coordinator + ": " + last.message;
    current_ = (current_ + 1) % coordinators_.size();
  }
  silent_until_ = options_.now() + options_.pause;
  return Fail(Code::kUnavailable, "no coordinator answers: {}", last.message);
}

}  // namespace ucudnn
