#ifndef UCUDNN_CLIENT_DROPIN_ASK_ASK_COORDINATOR_H_
#define UCUDNN_CLIENT_DROPIN_ASK_ASK_COORDINATOR_H_

// Asks coordinators for their measurements over REST, in a process that waits
// for the answer: a question takes at most a second, and after a failure no
// coordinator is asked for half a minute.

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/service/credentials.h"
#include "client/dropin/ask/problem_profile.h"

namespace ucudnn {

class CoordinatorAsker {
 public:
  struct Options {
    // With an authority's certificate, coordinators are asked over TLS. The
    // files are read for each question, so new ones are taken over.
    CredentialFiles credentials = {};
    // For all coordinators of the list together.
    std::chrono::milliseconds within = std::chrono::seconds(1);
    std::chrono::milliseconds pause = std::chrono::seconds(30);
    std::function<std::chrono::steady_clock::time_point()> now =
        std::chrono::steady_clock::now;  // clock of the pause
    // Gets the error of a question that failed for a reason that lasts until
    // somebody changes files or settings; may be empty.
    std::function<void(const std::string& error)> warn = {};
  };

  // `coordinators` as ParseRestCoordinators (client/config/coordinators.h) gives
  // them, at least one.
  explicit CoordinatorAsker(std::vector<std::string> coordinators)
      : CoordinatorAsker(std::move(coordinators), Options()) {}
  CoordinatorAsker(std::vector<std::string> coordinators, Options options)
      : coordinators_(std::move(coordinators)), options_(std::move(options)) {}

  // The known measurements of the problem on that device kind; possibly none.
  // The coordinator that answered last is asked first. Errors of LoadedCurl
  // (curl.h) and of files; if none answers, naming it, the last reason, or the
  // first that lasts; kUnavailable during the pause.
  Result<KnownElsewhere> Ask(const std::string& kind,
                             const ConvProblem& problem);

 private:
  const std::vector<std::string> coordinators_;
  const Options options_;
  std::size_t current_ = 0;
  std::chrono::steady_clock::time_point silent_until_{};
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_ASK_ASK_COORDINATOR_H_
