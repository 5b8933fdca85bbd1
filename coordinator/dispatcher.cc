#include "coordinator/dispatcher.h"

#include <exception>
#include <utility>

#include "base/service/call.h"
#include "coordinator/request_check.h"

namespace ucudnn {

void Dispatcher::Start(Request request) {
  const auto start = Clock::now();
  auto who = Admit(request.peer, request.call);
  const auto shared = std::make_shared<Request>(std::move(request));
  const auto end = [this, shared, start](Result<Answer> answer,
                                         bool busy = false) {
    Count(shared->peer, shared->call,
          answer ? Status() : tl::unexpected<Error>(answer.error()), start);
    shared->answer(std::move(answer), busy);
  };
  if (!who) return end(tl::unexpected<Error>(std::move(who).error()));
  const Status added = LaneOf(shared->call.sort)
                           .Add(*who ? ToUri(**who) : shared->peer.host,
                                {.wanted = shared->wanted,
                                 .run = [this, shared, end, who = *who] {
                                   end(Run(*shared, who));
                                 }});
  if (added) return;
  if (shared->call.sort == CallSort::kHeartbeat) {
    ++coordinator_.context.activity.heartbeats_refused;
  }
  end(tl::unexpected<Error>(added.error()), /*busy=*/true);
}

void Dispatcher::EndUnwanted() {
  for (Lane* lane : {&short_calls_, &heartbeats_, &long_calls_}) {
    lane->RunUnwanted();
  }
}

Status Dispatcher::Authenticate(const Peer& peer, const CallSpec& call) {
  const auto start = Clock::now();
  const auto who = Admit(peer, call);
  if (who) return {};
  Status refused = tl::unexpected<Error>(who.error());
  Count(peer, call, refused, start);
  return refused;
}

Result<std::optional<Principal>> Dispatcher::Admit(const Peer& peer,
                                                   const CallSpec& call) const {
  UCUDNN_ASSIGN_OR_RETURN(std::optional<Principal> who, guard_.Identify(peer));
  if (who) UCUDNN_RETURN_IF_ERROR(CheckRole(*who, call.name, call.rule));
  return who;
}

Result<Answer> Dispatcher::Run(const Request& request,
                               const std::optional<Principal>& who) {
  const CallSpec& call = request.call;
  const Call scope([&]() -> Status {
    if (request.wanted()) return {};
    return Fail(Code::kCancelled, "the client ended the call");
  });
  try {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<Message> message,
                            request.read());
    std::optional<Call::By> by;
    if (who) {
      UCUDNN_RETURN_IF_ERROR(CheckAccess(*who, call.name, call.rule,
                                         call.claim(*message),
                                         request.peer.job_key));
      by.emplace(NameOf(*who));
    }
    UCUDNN_RETURN_IF_ERROR(CheckRequest(*message));
    return call.run(coordinator_, who ? &*who : nullptr, *message);
  } catch (const std::exception& thrown) {
    return Fail(Code::kInternal, "{} failed: {}", call.name, thrown.what());
  }
}

void Dispatcher::Count(const Peer& peer, const CallSpec& call,
                       const Status& outcome, Clock::time_point start) {
  const auto took = Clock::now() - start;
  const std::string name(call.name);
  metrics_.CountRequest(name, outcome, took);
  log_.Add(name, peer.host, outcome, took, call.sort == CallSort::kLong);
}

Lane& Dispatcher::LaneOf(CallSort sort) {
  switch (sort) {
    case CallSort::kShort:
      return short_calls_;
    case CallSort::kLong:
      return long_calls_;
    case CallSort::kHeartbeat:
      return heartbeats_;
  }
  return short_calls_;
}

}  // namespace ucudnn
