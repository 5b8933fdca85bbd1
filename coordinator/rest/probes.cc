#include "coordinator/rest/probes.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/lane.h"
#include "coordinator/limits.h"
#include "coordinator/rest/http_server.h"
#include "coordinator/rest/problem.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// What the database told last. A thread asks it, so that one that does not
// answer keeps nobody waiting for longer than kPatience.
class LastStatus {
 public:
  struct Known {
    v1::StatusResponse status;
    std::chrono::nanoseconds age{};
  };

  explicit LastStatus(Coordinator& coordinator)
      : coordinator_(coordinator),
        asking_([this](const std::stop_token& stop) { Ask(stop); }) {}

  // The answer to a question asked after this call began, or to one that runs;
  // if none comes, the last one. kUnavailable, or the database's error, if
  // there never was one. Thread-safe.
  Result<Known> Get() {
    constexpr std::chrono::milliseconds kPatience{2'000};
    std::unique_lock lock(mutex_);
    wanted_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience,
                      [&, before = asked_] { return asked_ > before; });
    if (!known_) return tl::unexpected<Error>(why_);
    return Known{*known_, Clock::now() - told_};
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Ask(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return wanted_; })) {
      wanted_ = false;
      lock.unlock();
      Result<v1::StatusResponse> status = coordinator_.upkeep.GetStatus({});
      lock.lock();
      ++asked_;
      if (status) {
        known_ = *std::move(status);
        told_ = Clock::now();
      } else {
        why_ = std::move(status).error();
      }
      changed_.notify_all();
    }
  }

  Coordinator& coordinator_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool wanted_ = false;
  std::int64_t asked_ = 0;
  std::optional<v1::StatusResponse> known_;
  Clock::time_point told_;
  Error why_{Code::kUnavailable, "the database has not answered yet"};
  std::jthread asking_;
};

}  // namespace

void AddProbes(Dispatcher& dispatcher, const Health& health, HttpServer* http) {
  constexpr std::size_t kMost = kMaxProbeConnections;
  const auto text = [](std::string type, std::string body) {
    HttpResponse response;
    response.type = std::move(type);
    response.body = std::move(body);
    return response;
  };
  const auto ok = [text] { return text("text/plain", "ok\n"); };
  http->Get("/livez", [ok](const HttpRequest&) { return ok(); });
  http->Get("/readyz", [ok, &health](const HttpRequest&) {
    const Status ready = health.Ready();
    // 503 whatever the reason.
    return ready ? ok() : Problem(ready.error(), 503);
  });
  const auto metrics =
      [&dispatcher, text,
       last = std::make_shared<LastStatus>(dispatcher.coordinator())] {
        const auto known = last->Get();
        if (!known) return Problem(known.error(), 503);
        return text(
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            dispatcher.metrics().Text(known->status, known->age,
                                      dispatcher.coordinator().context.activity,
                                      dispatcher.guard().Expiries()));
      };
  http->Route("GET", "/metrics",
              [&guard = dispatcher.guard(), metrics,
               lane = std::make_shared<Lane>(kMost, kMost, 2 * kMost)](
                  const auto& request, HttpReply reply) {
                const auto who = guard.Identify(request->peer);
                const Status admitted =
                    !who   ? tl::unexpected<Error>(who.error())
                    : *who ? CheckRole(**who, "metrics", kReadMetrics)
                           : Status();
                if (!admitted) return reply(Problem(admitted.error()));
                // The database may keep it waiting.
                const Status added = lane->Add(
                    "", {.wanted = [] { return true; },
                         .run = [metrics, reply] { reply(metrics()); }});
                if (!added) reply(Problem(added.error()));
              });
}

}  // namespace ucudnn
