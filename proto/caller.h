#ifndef UCUDNN_PROTO_CALLER_H_
#define UCUDNN_PROTO_CALLER_H_

// Calls to the coordinators of a list, for agents and clients alike: each call
// is retried by its policy (proto/retry.h), fails over through the list,
// and is cancelled when a stop is requested.
//
//   using Agents = ServiceCaller<v1::AgentService>;
//   UCUDNN_ASSIGN_OR_RETURN(const auto agents,
//                           Agents::Open({"a:7460", "b:7460"}, {}));
//   const Result<v1::RegisterResponse> response =
//       agents->Call(&Agents::Stub::Register, request, policy);
//
// Errors are the coordinator's own; or kUnavailable or kDeadlineExceeded, which
// name the coordinators, if none answers within the budget; or kCancelled after
// a stop was requested. A coordinator that shuts down during a call counts as
// one that cannot be reached. Calls may come from any thread.
//
// Includes gRPC: include it in .cc files only.

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/service/credentials.h"
#include "proto/channel.h"
#include "proto/retry.h"

namespace ucudnn {

class Caller {
 public:
  struct Options {
    CredentialFiles credentials = {};
    std::string job_key = {};  // proto/job_key.h; empty: none
    // Once it is requested, calls return kCancelled.
    std::stop_token stop = {};
    std::optional<Waiting> waiting = {};  // between attempts; real by default
    // Over how long those reconnect who lose a coordinator at once.
    Milliseconds reconnect_spread = {};
  };

  // Does not connect yet: the first call does. `coordinators` holds at
  // least one "host:port". Callers that lose a coordinator at once reconnect at
  // moments that are spread over `reconnect_spread`.
  Caller(std::vector<std::string> coordinators, Access access,
         std::stop_token stop, Waiting waiting, Milliseconds reconnect_spread);

  // The coordinators as one text, separated by commas.
  const std::string& name() const { return name_; }
  const std::stop_token& stop() const { return stop_; }

 protected:
  std::shared_ptr<grpc::Channel> OpenChannel(std::size_t coordinator) const;
  std::size_t size() const { return coordinators_.size(); }
  // Waits until one of the coordinators is connected: kUnavailable after
  // `patience`, kCancelled after a stop. The channels are those of all.
  Status Reach(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
               Milliseconds patience);
  // Lets a channel that has lost its coordinator finish its next handshake,
  // for at most half of the time that a call with this deadline has left.
  void Reconnect(grpc::Channel& channel,
                 std::chrono::system_clock::time_point deadline) const;
  // Why the coordinators cannot be reached; with several, that of each.
  std::string WhyUnreachable() const;
  // Makes the attempts of one call.
  Status Run(const RetryPolicy& policy,
             const std::function<grpc::Status(std::size_t coordinator,
                                              grpc::ClientContext*)>& call);

 private:
  std::vector<std::string> coordinators_;
  std::string name_;
  Access access_;
  std::stop_token stop_;
  Waiting waiting_;
  Milliseconds reconnect_spread_;
  std::atomic<std::size_t> current_ = 0;  // the one that answered last
};

template <class Service>
class ServiceCaller : public Caller {
 public:
  using Stub = typename Service::Stub;
  template <class Request, class Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&,
                                        Response*);

  // Errors of Access::Open (proto/channel.h).
  static Result<std::unique_ptr<ServiceCaller>> Open(
      std::vector<std::string> coordinators, Options options) {
    UCUDNN_ASSIGN_OR_RETURN(
        Access access,
        Access::Open(options.credentials, coordinators, options.job_key));
    Waiting waiting = options.waiting ? *std::move(options.waiting)
                                      : Waiting::Real(options.stop);
    return std::make_unique<ServiceCaller>(
        std::move(coordinators), std::move(access), std::move(options.stop),
        std::move(waiting), options.reconnect_spread);
  }

  explicit ServiceCaller(std::vector<std::string> coordinators)
      : ServiceCaller(std::move(coordinators), {}, {}, Waiting::Real()) {}
  ServiceCaller(std::vector<std::string> coordinators, Access access,
                std::stop_token stop, Waiting waiting,
                Milliseconds reconnect_spread = {})
      : Caller(std::move(coordinators), std::move(access), std::move(stop),
               std::move(waiting), reconnect_spread) {
    for (std::size_t i = 0; i < size(); ++i) {
      channels_.push_back(OpenChannel(i));
      stubs_.push_back(Service::NewStub(channels_.back()));
    }
  }

  // Whether a coordinator can be reached, without calling it: kUnavailable if
  // none is connected within `patience`, or kCancelled.
  Status Reach(Milliseconds patience) {
    return Caller::Reach(channels_, patience);
  }

  template <class Request, class Response>
  Result<Response> Call(Method<Request, Response> method,
                        const Request& request,
                        const RetryPolicy& policy = {}) {
    Response response;
    UCUDNN_RETURN_IF_ERROR(
        Run(policy, [&](std::size_t i, grpc::ClientContext* context) {
          response.Clear();
          Reconnect(*channels_[i], context->deadline());
          return (*stubs_[i].*method)(context, request, &response);
        }));
    return response;
  }

 private:
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<Stub>> stubs_;
};

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_CALLER_H_
