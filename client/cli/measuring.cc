#include "client/cli/measuring.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/service/backoff.h"
#include "client/cli/progress.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn::ctl {

tl::unexpected<Error> LeftBehind(Error error, std::string_view what) {
  if (error.code == Code::kCancelled) {
    error.message += fmt::format("; {}", what);
  }
  return tl::unexpected<Error>(std::move(error));
}

Status AwaitMeasured(Connection& connection, v1::MeasureRequest request,
                     std::optional<std::chrono::seconds> limit) {
  const auto start = std::chrono::steady_clock::now();
  Progress progress("measured", isatty(STDERR_FILENO) != 0);
  bool warned = false;
  while (true) {
    const auto answer = connection.Measure(request, RetryPolicy::LongWork());
    if (!answer) {
      progress.End();
      return LeftBehind(answer.error(),
                        "the requested measurements continue; the same command "
                        "resumes waiting for them");
    }
    const v1::MeasureProgress& now = *answer;
    const std::int64_t ended = now.done() + now.failed();
    progress.Show(ended, now.total(),
                  now.failed() > 0 ? fmt::format("{} failed", now.failed())
                                   : std::string());
    if (ended == now.total() && !request.dry_run()) {
      progress.End();
      for (const std::string& failure : now.failures()) {
        std::fprintf(stderr, "failed: %s\n", failure.c_str());
      }
      return {};
    }
    if (!now.kinds_without_device().empty() && !warned) {
      warned = true;
      for (const std::string& kind : now.kinds_without_device()) {
        progress.Say(fmt::format(
            "no device of kind '{}' is online; waiting for one", kind));
      }
    }
    if (limit && std::chrono::steady_clock::now() - start >= *limit) return {};
    // Once requested, only poll, until everything is done or more turns out to
    // be needed.
    request.set_dry_run(ended < now.total() && now.unasked() == 0);
    request.set_retry_failed(false);
    if (!request.dry_run()) continue;
    Pause(connection.stop(), Milliseconds(500));
  }
}

}  // namespace ucudnn::ctl
