#ifndef UCUDNN_COORDINATOR_DISPATCHER_H_
#define UCUDNN_COORDINATOR_DISPATCHER_H_

// What gRPC and REST do around every call of the coordinator: they find out who
// calls and refuse those who may not, bound how many run at once, refuse
// requests that are out of bounds, and count them. Calls run on threads of the
// dispatcher, so that the wires' own never wait.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "coordinator/calls.h"
#include "coordinator/lane.h"
#include "coordinator/limits.h"
#include "coordinator/metrics.h"
#include "coordinator/request_log.h"
#include "coordinator/security/guard.h"

namespace ucudnn {

// Thread-safe.
class Dispatcher {
 public:
  using Message = google::protobuf::Message;

  struct Request {
    const CallSpec& call;
    Peer peer;
    // Reads the request, on the thread that runs the call.
    std::function<Result<std::unique_ptr<Message>>()> read;
    // Whether anybody still waits for the answer.
    std::function<bool()> wanted;
    // Takes the answer, once, on whichever thread. If `busy`, the same request
    // may succeed a second later.
    std::function<void(Result<Answer> answer, bool busy)> answer;
  };

  Dispatcher(Coordinator& coordinator, Metrics& metrics,
             const Guard& guard = Guard::None())
      : coordinator_(coordinator), metrics_(metrics), guard_(guard) {}

  Coordinator& coordinator() { return coordinator_; }
  Metrics& metrics() const { return metrics_; }
  const Guard& guard() const { return guard_; }

  // Answers with what the call returns; kUnauthenticated and kPermissionDenied;
  // kResourceExhausted, busy, if too many run; kInvalidArgument of
  // CheckRequest; kCancelled if the answer is not wanted any more.
  void Start(Request request);

  // To be called when requests are not wanted any more: those that wait for a
  // thread are answered at once.
  void EndUnwanted();

  // kUnauthenticated or kPermissionDenied if this peer cannot make the call:
  // for requests that are long to read. Start asks again.
  Status Authenticate(const Peer& peer, const CallSpec& call);

 private:
  using Clock = std::chrono::steady_clock;

  // Who calls, if they may make such calls.
  Result<std::optional<Principal>> Admit(const Peer& peer,
                                         const CallSpec& call) const;
  Result<Answer> Run(const Request& request,
                     const std::optional<Principal>& who);
  // Counts the request, and logs it if need be.
  void Count(const Peer& peer, const CallSpec& call, const Status& outcome,
             Clock::time_point start);
  Lane& LaneOf(CallSort sort);

  Coordinator& coordinator_;
  Metrics& metrics_;
  const Guard& guard_;
  RequestLog log_;
  // A host may run agents and jobs by the dozen.
  Lane short_calls_{kMaxShortCalls, kMaxWaitingShortCalls,
                    kMaxShortCalls + kMaxWaitingShortCalls};
  Lane heartbeats_{kMaxHeartbeats, kMaxWaitingHeartbeats,
                   kMaxHeartbeats + kMaxWaitingHeartbeats};
  Lane long_calls_{kMaxLongCalls, kMaxWaitingLongCalls, kMaxLongCallsOfAHost};
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_DISPATCHER_H_
