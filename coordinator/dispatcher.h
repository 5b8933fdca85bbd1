#ifndef UCUDNN_COORDINATOR_DISPATCHER_H_
#define UCUDNN_COORDINATOR_DISPATCHER_H_

// What gRPC and REST do around every call of the coordinator: they refuse
// requests that are out of bounds, bound how many run at once, and count them.

#include <chrono>
#include <string>
#include <type_traits>

#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/gate.h"
#include "coordinator/limits.h"
#include "coordinator/metrics.h"
#include "coordinator/request_check.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Thread-safe.
class Dispatcher {
 public:
  Dispatcher(Coordinator& coordinator, Metrics& metrics)
      : coordinator_(coordinator), metrics_(metrics) {}

  Coordinator& coordinator() { return coordinator_; }
  const Metrics& metrics() const { return metrics_; }

  // Runs the call `method` of the coordinator for the host `caller`. Errors of
  // the call; kInvalidArgument of CheckRequest; kResourceExhausted if too many
  // run.
  template <class Request, class Response>
  Result<Response> Run(const std::string& caller, const char* method,
                       Result<Response> (Coordinator::*call)(const Request&),
                       const Request& request) {
    const auto start = std::chrono::steady_clock::now();
    Gate& gate = kIsLong<Request, Response> ? long_calls_ : short_calls_;
    Result<Response> result = [&]() -> Result<Response> {
      UCUDNN_RETURN_IF_ERROR(CheckRequest(request));
      UCUDNN_ASSIGN_OR_RETURN(const Gate::Pass pass, gate.Enter(caller));
      UCUDNN_RETURN_IF_ERROR(Call::Check());
      return (coordinator_.*call)(request);
    }();
    Count(method, result ? Status() : tl::unexpected<Error>(result.error()),
          start);
    return result;
  }

  // Counts a request that was refused before it became a call.
  void Count(const char* method, const Status& outcome,
             std::chrono::steady_clock::time_point start) {
    metrics_.CountRequest(method, outcome,
                          std::chrono::steady_clock::now() - start);
  }

 private:
  // Calls that make plans, read files or move whole profiles.
  template <class Request, class Response>
  static constexpr bool kIsLong =
      std::is_same_v<Request, v1::AllocateRequest> ||
      std::is_same_v<Request, v1::PlanRequest> ||
      std::is_same_v<Request, v1::MeasureRequest> ||
      std::is_same_v<Request, v1::ReplanJobRequest> ||
      std::is_same_v<Request, v1::CancelTasksRequest> ||
      std::is_same_v<Request, v1::HoldAgentRequest> ||
      std::is_same_v<Request, v1::PutNetworkRequest> ||
      std::is_same_v<Request, v1::Profile> ||
      std::is_same_v<Response, v1::Profile>;

  Coordinator& coordinator_;
  Metrics& metrics_;
  // A host may run agents and jobs by the dozen.
  Gate short_calls_{kMaxShortCalls, kMaxWaitingShortCalls,
                    kMaxShortCalls + kMaxWaitingShortCalls};
  Gate long_calls_{kMaxLongCalls, kMaxWaitingLongCalls, kMaxLongCallsOfAHost};
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_DISPATCHER_H_
