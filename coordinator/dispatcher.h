#ifndef UCUDNN_COORDINATOR_DISPATCHER_H_
#define UCUDNN_COORDINATOR_DISPATCHER_H_

// What gRPC and REST do around every call of the coordinator: they find out who
// calls and refuse those who may not, refuse requests that are out of bounds,
// bound how many run at once, and count them.

#include <chrono>
#include <optional>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "base/service/call.h"
#include "coordinator/coordinator.h"
#include "coordinator/gate.h"
#include "coordinator/limits.h"
#include "coordinator/metrics.h"
#include "coordinator/request_check.h"
#include "coordinator/request_log.h"
#include "coordinator/security/guard.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

// Thread-safe.
class Dispatcher {
 public:
  Dispatcher(Coordinator& coordinator, Metrics& metrics,
             const Guard& guard = Guard::None())
      : coordinator_(coordinator), metrics_(metrics), guard_(guard) {}

  Coordinator& coordinator() { return coordinator_; }
  Metrics& metrics() const { return metrics_; }
  const Guard& guard() const { return guard_; }

  // kUnauthenticated if nobody knows the peer: for requests of `method` that
  // are long to read. Run asks again.
  Status Authenticate(const Peer& peer, const char* method) {
    const auto start = std::chrono::steady_clock::now();
    Status known = guard_.Authenticate(peer);
    if (!known) {
      Count(method, known, start);
      log_.Add(method, peer.host, known,
               std::chrono::steady_clock::now() - start, /*may_last=*/false);
    }
    return known;
  }

  // Runs the call `method` of a service of the coordinator for the peer. Errors
  // of the call; kUnauthenticated and kPermissionDenied of Guard::Admit;
  // kInvalidArgument of CheckRequest; kResourceExhausted if too many run, and
  // then sets `*busy`: the same call may succeed a second later.
  template <class Service, class Request, class Response>
  Result<Response> Run(const Peer& peer, const char* method,
                       Result<Response> (Service::*call)(const Request&),
                       const Request& request, bool* busy = nullptr) {
    const auto start = std::chrono::steady_clock::now();
    Gate& gate = GateOf<Request, Response>();
    Result<Response> result = [&]() -> Result<Response> {
      UCUDNN_ASSIGN_OR_RETURN(const std::optional<Principal> principal,
                              guard_.Admit(peer, method, ClaimOf(request)));
      UCUDNN_RETURN_IF_ERROR(CheckRequest(request));
      const auto pass = gate.Enter(principal ? ToUri(*principal) : peer.host);
      if (!pass) {
        if (busy != nullptr) *busy = true;
        return tl::unexpected<Error>(pass.error());
      }
      UCUDNN_RETURN_IF_ERROR(Call::Check());
      Service& service = coordinator_.Get<Service>();
      if (!principal) return (service.*call)(request);
      const Call::By by(NameOf(*principal));
      return RunFor(*principal, service, call, request);
    }();
    const Status outcome =
        result ? Status() : tl::unexpected<Error>(result.error());
    Count(method, outcome, start);
    log_.Add(method, peer.host, outcome,
             std::chrono::steady_clock::now() - start,
             kIsLong<Request, Response>);
    return result;
  }

  // Counts a request that was refused before it became a call.
  void Count(const char* method, const Status& outcome,
             std::chrono::steady_clock::time_point start) {
    metrics_.CountRequest(method, outcome,
                          std::chrono::steady_clock::now() - start);
  }

 private:
  template <class Request>
  static Claim ClaimOf(const Request& request) {
    Claim claim;
    if constexpr (requires { request.agent_id(); }) {
      claim.agent_id = request.agent_id();
    }
    if constexpr (requires { request.job_id(); }) {
      claim.job_id = request.job_id();
    }
    if constexpr (requires { request.dry_run(); }) {
      claim.dry_run = request.dry_run();
    }
    return claim;
  }

  static std::string NameOf(const Principal& principal) {
    return fmt::format("{} {}", Name(principal.role), principal.name);
  }

  // What people do is kept under their own names.
  template <class Service, class Request, class Response>
  Result<Response> RunFor(const Principal& principal, Service& service,
                          Result<Response> (Service::*call)(const Request&),
                          const Request& request) {
    if constexpr (std::is_same_v<Request, v1::RegisterRequest>) {
      UCUDNN_RETURN_IF_ERROR(service.CheckOwners(request));
    }
    if constexpr (requires(Request named) { named.set_who(std::string()); }) {
      Request named = request;
      named.set_who(NameOf(principal));
      return (service.*call)(named);
    } else {
      return (service.*call)(request);
    }
  }

  // Calls that make plans, read files or move whole profiles.
  template <class Request, class Response>
  static constexpr bool kIsLong =
      std::is_same_v<Request, v1::AllocateRequest> ||
      std::is_same_v<Request, v1::PlanRequest> ||
      std::is_same_v<Request, v1::MeasureRequest> ||
      std::is_same_v<Request, v1::ReplanJobRequest> ||
      std::is_same_v<Request, v1::CancelTasksRequest> ||
      std::is_same_v<Request, v1::HoldAgentRequest> ||
      std::is_same_v<Request, v1::PruneRequest> ||
      std::is_same_v<Request, v1::PutNetworkRequest> ||
      std::is_same_v<Request, v1::Profile> ||
      std::is_same_v<Response, v1::Profile>;

  template <class Request, class Response>
  Gate& GateOf() {
    if constexpr (std::is_same_v<Request, v1::HeartbeatRequest>) {
      return heartbeats_;
    } else {
      return kIsLong<Request, Response> ? long_calls_ : short_calls_;
    }
  }

  Coordinator& coordinator_;
  Metrics& metrics_;
  const Guard& guard_;
  RequestLog log_;
  // A host may run agents and jobs by the dozen.
  Gate short_calls_{kMaxShortCalls, kMaxWaitingShortCalls,
                    kMaxShortCalls + kMaxWaitingShortCalls};
  Gate heartbeats_{kMaxHeartbeats, kMaxWaitingHeartbeats,
                   kMaxHeartbeats + kMaxWaitingHeartbeats};
  Gate long_calls_{kMaxLongCalls, kMaxWaitingLongCalls, kMaxLongCallsOfAHost};
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_DISPATCHER_H_
