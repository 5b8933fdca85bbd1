#include "client/cli/server/measuring.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/service/backoff.h"
#include "client/cli/command.h"
#include "client/cli/progress.h"

namespace ucudnn::ctl {

tl::unexpected<Error> LeftBehind(Error error, std::string_view what) {
  if (error.code == Code::kCancelled) {
    error.message += fmt::format("; {}", what);
  }
  return tl::unexpected<Error>(std::move(error));
}

std::string GoesOn(std::int64_t campaign, std::int64_t missing) {
  if (campaign == 0) return "the requested measurements continue";
  return fmt::format(
      "the requested measurements continue: campaign {0}, {1} to go; `ucudnn "
      "cancel {0}` ends it",
      campaign, missing);
}

std::string CostText(const v1::MeasureProgress& progress) {
  const std::int64_t missing =
      progress.total() - progress.done() - progress.failed();
  std::string text = fmt::format(
      "{} measurements: {} made, {} failed, {} missing\n", progress.total(),
      progress.done(), progress.failed(), missing);
  if (progress.cancelled() > 0) {
    text += fmt::format("{} of them were cancelled {}\n", progress.cancelled(),
                        OneLine(progress.cancelled_why()));
  }
  if (missing == 0) return text;
  Table table({"KIND", "MISSING", "TAKING WORK", "OTHERS FIRST"});
  for (const v1::KindProgress& kind : progress.kinds()) {
    table.AddRow({kind.kind(), std::to_string(kind.missing()),
                  std::to_string(kind.devices()),
                  std::to_string(kind.ahead())});
  }
  text += table.Text();
  if (!progress.has_estimate_ms()) {
    return text +
           "how long they take is unknown: no campaign has measured on these "
           "kinds yet, or none of their devices takes work (`ucudnn nodes` "
           "shows cordoned ones)\n";
  }
  const double seconds = static_cast<double>(progress.estimate_ms()) / 1000;
  return text +
         (seconds < 120 ? fmt::format("about {:.0f} s", seconds)
                        : fmt::format("about {:.0f} min", seconds / 60)) +
         " at the pace of earlier campaigns" +
         (progress.kinds_size() > 1
              ? "; the shares that unlike ranks get are measured after that\n"
              : "\n");
}

Result<bool> AwaitMeasured(Connection& connection, v1::MeasureRequest request,
                           std::optional<std::chrono::seconds> limit) {
  const auto start = std::chrono::steady_clock::now();
  Progress progress("measured", isatty(STDERR_FILENO) != 0);
  bool warned = false;
  std::int64_t campaign = 0;
  std::int64_t missing = 0;
  request.set_retry_cancelled(true);
  while (true) {
    const auto answer =
        connection.Call(&Stub::Measure, request, RetryPolicy::LongWork());
    if (!answer) {
      progress.End();
      return LeftBehind(answer.error(),
                        GoesOn(campaign, missing) +
                            "; the same command resumes waiting for them");
    }
    const v1::MeasureProgress& now = *answer;
    const std::int64_t ended = now.done() + now.failed();
    if (now.campaign_id() > 0) campaign = now.campaign_id();
    missing = now.total() - ended;
    progress.Show(ended, now.total(),
                  now.failed() > 0 ? fmt::format("{} failed", now.failed())
                                   : std::string());
    if (missing == 0 && !request.dry_run()) {
      progress.End();
      for (const std::string& failure : now.failures()) {
        std::fprintf(stderr, "failed: %s\n", OneLine(failure).c_str());
      }
      return true;
    }
    if (now.cancelled() > 0) {
      progress.End();
      return Fail(Code::kFailedPrecondition,
                  "{} of {} measurements were cancelled {}; the same command "
                  "requests them again",
                  now.cancelled(), now.total(), now.cancelled_why());
    }
    if (!now.kinds_without_device().empty() && !warned) {
      warned = true;
      for (const std::string& kind : now.kinds_without_device()) {
        progress.Say(fmt::format(
            "no device of kind '{}' is online; waiting for one", kind));
      }
    }
    if (limit && std::chrono::steady_clock::now() - start >= *limit) {
      progress.Say(GoesOn(campaign, missing));
      return false;
    }
    // Once requested, only poll, until everything is done or more turns out to
    // be needed.
    request.set_dry_run(missing > 0 && now.unasked() == 0);
    request.set_retry_failed(false);
    request.set_retry_cancelled(false);
    request.set_wait_for_device(true);
    if (!request.dry_run()) continue;
    Pause(connection.stop(), Milliseconds(500));
  }
}

}  // namespace ucudnn::ctl
