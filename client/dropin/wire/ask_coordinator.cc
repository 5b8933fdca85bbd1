#include "client/dropin/wire/ask_coordinator.h"

#include <optional>
#include <utility>

#include "client/dropin/wire/grpc_call.h"
#include "client/dropin/wire/on_thread.h"

namespace ucudnn {
namespace {

// All that a question needs, because a thread may outlive its asker.
struct Question {
  std::vector<std::string> coordinators;
  std::size_t first = 0;
  CredentialFiles credentials;
  std::string request;
  Deadline deadline;
};

struct Answered {
  std::size_t coordinator = 0;
  KnownElsewhere known;
};

// Whether asking again will fail until somebody changes files or settings.
bool Lasts(const Error& error) {
  return error.code == Code::kInvalidArgument ||
         error.code == Code::kFailedPrecondition ||
         error.code == Code::kUnauthenticated ||
         error.code == Code::kPermissionDenied;
}

Result<KnownElsewhere> AskOne(const Question& question,
                              const std::string& coordinator,
                              const WireAccess& access, Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(
      const std::string answer,
      CallGrpc(coordinator, "/ucudnn.v1.CoordinatorService/GetProblemProfile",
               question.request, deadline, access));
  auto known = DecodeProblemProfile(answer);
  if (known) return known;
  return Fail(Code::kInternal, "{}", known.error().message);
}

Result<Answered> AskInTurn(const Question& question) {
  const std::size_t count = question.coordinators.size();
  const auto access =
      WireAccess::Open(question.credentials, question.coordinators);
  if (!access) return Within("no coordinator is asked", access.error());
  std::optional<Error> lasting;
  Error last;
  for (std::size_t i = 0; i < count; ++i) {
    // Leave time for the others if this one does not answer.
    const auto now = std::chrono::steady_clock::now();
    const auto share =
        (question.deadline - now) / static_cast<std::int64_t>(count - i);
    const std::size_t at = (question.first + i) % count;
    const std::string& coordinator = question.coordinators[at];
    auto known = AskOne(question, coordinator, *access, now + share);
    if (known) return Answered{at, *std::move(known)};
    last = {known.error().code,
            fmt::format("{}: {}", coordinator, known.error().message)};
    if (!lasting && Lasts(last)) lasting = last;
  }
  const Error& error = lasting ? *lasting : last;
  return Fail(lasting ? error.code : Code::kUnavailable,
              "no coordinator answers: {}", error.message);
}

// Files are read and OpenSSL works on a thread of ours (tls.h), which gets a
// little more time, so that it tells whom it waited for.
Result<Answered> AskSafely(Question question) {
  if (question.credentials == CredentialFiles()) return AskInTurn(question);
  const Deadline deadline = question.deadline + std::chrono::milliseconds(50);
  return OnThread<Answered>(
      deadline, "asking a coordinator",
      [question = std::move(question)] { return AskInTurn(question); });
}

}  // namespace

Result<KnownElsewhere> CoordinatorAsker::Ask(const std::string& kind,
                                             const ConvProblem& problem) {
  if (options_.now() < silent_until_) {
    return Fail(Code::kUnavailable, "no coordinator answered a moment ago");
  }
  auto answered = AskSafely(
      {.coordinators = coordinators_,
       .first = current_,
       .credentials = options_.credentials,
       .request = EncodeProfileRequest(kind, problem),
       .deadline = std::chrono::steady_clock::now() + options_.within});
  if (answered) {
    current_ = answered->coordinator;
    return std::move(answered->known);
  }
  silent_until_ = options_.now() + options_.pause;
  if (options_.warn && Lasts(answered.error())) {
    options_.warn(answered.error().message);
  }
  return tl::unexpected<Error>(std::move(answered).error());
}

}  // namespace ucudnn
