#include "client/dropin/ask/ask_coordinator.h"

#include <pthread.h>

#include <csignal>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "client/config/coordinators.h"
#include "client/dropin/ask/rest_call.h"

namespace ucudnn {
namespace {

// All that a question needs, because a thread may outlive its asker.
struct Question {
  std::vector<std::string> coordinators;
  std::size_t first = 0;
  CredentialFiles credentials;
  std::string path;
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

// For the path of a URL; kinds have slashes in their names.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string::npos;
    escaped += plain ? std::string(1, c)
                     : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

Result<KnownElsewhere> AskOne(const Curl& curl, const Question& question,
                              const std::string& coordinator,
                              const std::string& token, Deadline deadline) {
  const CredentialFiles& files = question.credentials;
  UCUDNN_ASSIGN_OR_RETURN(const std::string address, RestAddress(coordinator));
  if (coordinator.starts_with("https:") && files.ca.empty()) {
    return Fail(Code::kInvalidArgument,
                "https needs an authority's certificate (UCUDNN_CA)");
  }
  UCUDNN_RETURN_IF_ERROR(CheckTokenStaysSecret(files, {address}));
  UCUDNN_ASSIGN_OR_RETURN(const std::string answer,
                          GetOverRest(curl, {.address = address,
                                             .path = question.path,
                                             .credentials = files,
                                             .token = token,
                                             .deadline = deadline}));
  auto known = ParseProblemProfile(answer);
  if (known) return known;
  return Fail(Code::kInternal, "the answer is not understood: {}",
              known.error().message);
}

Result<std::string> CheckedToken(const CredentialFiles& files) {
  UCUDNN_RETURN_IF_ERROR(CheckCredentials(files));
  return ReadToken(files);
}

Result<Answered> AskInTurn(const Question& question) {
  const std::size_t count = question.coordinators.size();
  const auto curl = LoadedCurl();
  if (!curl) return Within("no coordinator is asked", curl.error());
  const auto token = CheckedToken(question.credentials);
  if (!token) return Within("no coordinator is asked", token.error());
  std::optional<Error> lasting;
  Error last;
  for (std::size_t i = 0; i < count; ++i) {
    // Leave time for the others if this one does not answer.
    const auto now = std::chrono::steady_clock::now();
    const auto share =
        (question.deadline - now) / static_cast<std::int64_t>(count - i);
    const std::size_t at = (question.first + i) % count;
    const std::string& coordinator = question.coordinators[at];
    auto known = AskOne(**curl, question, coordinator, *token, now + share);
    if (known) return Answered{at, *std::move(known)};
    last = {known.error().code,
            fmt::format("{}: {}", coordinator, known.error().message)};
    if (!lasting && Lasts(last)) lasting = last;
  }
  const Error& error = lasting ? *lasting : last;
  return Fail(lasting ? error.code : Code::kUnavailable,
              "no coordinator answers: {}", error.message);
}

// Starts a thread that blocks all signals, which are the program's; so a
// SIGPIPE that libcurl causes is lost, too.
void StartDetached(std::packaged_task<Result<Answered>()> work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(std::move(work)).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// On a thread of its own, which is left behind if it does not end in time:
// files, names and the loader can take any time, and OpenSSL keeps errors per
// thread.
Result<Answered> AskOnThread(Question question, Deadline deadline) {
  try {
    std::packaged_task<Result<Answered>()> work(
        [question = std::move(question)] { return AskInTurn(question); });
    auto answer = work.get_future();
    StartDetached(std::move(work));
    if (answer.wait_until(deadline) == std::future_status::ready) {
      return answer.get();
    }
    return Fail(Code::kDeadlineExceeded,
                "asking a coordinator takes too long");
  } catch (const std::exception& error) {
    return Fail(Code::kResourceExhausted, "no coordinator is asked: {}",
                error.what());
  }
}

}  // namespace

Result<KnownElsewhere> CoordinatorAsker::Ask(const std::string& kind,
                                             const ConvProblem& problem) {
  if (options_.now() < silent_until_) {
    return Fail(Code::kUnavailable, "no coordinator answered a moment ago");
  }
  const Deadline deadline = std::chrono::steady_clock::now() + options_.within;
  auto answered = AskOnThread(
      {.coordinators = coordinators_,
       .first = current_,
       .credentials = options_.credentials,
       .path = fmt::format("/v1/profiles/{}/problems/{}", Escaped(kind),
                           Escaped(ToString(problem))),
       // A little earlier than the wait here ends, so that the error of the
       // thread, which names the coordinator, still arrives.
       .deadline = deadline - options_.within / 20},
      deadline);
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
