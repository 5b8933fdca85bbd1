#include "coordinator/rest/server.h"

#include <httplib.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "coordinator/coordinator.h"
#include "coordinator/metrics.h"
#include "proto/json.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxBodyBytes = 64U << 20U;

int HttpStatus(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return 400;
    case Code::kUnauthenticated:
      return 401;
    case Code::kPermissionDenied:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kAlreadyExists:
    case Code::kAborted:
      return 409;
    case Code::kFailedPrecondition:
      return 422;
    case Code::kResourceExhausted:
      return 429;
    case Code::kUnimplemented:
      return 501;
    case Code::kUnavailable:
      return 503;
    case Code::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

void Reply(const Json& body, int status, httplib::Response* response) {
  response->status = status;
  response->set_content(
      body.dump(2, ' ', false, Json::error_handler_t::replace) + "\n",
      "application/json");
}

void ReplyError(const Error& error, httplib::Response* response) {
  if (error.code == Code::kUnavailable) {
    response->set_header("Retry-After", "1");
  }
  Reply(
      {{"error", {{"code", CodeName(error.code)}, {"message", error.message}}}},
      HttpStatus(error.code), response);
}

template <class Message>
Status ParseBody(const std::string& body, Message* message) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return Fail(Code::kInvalidArgument, "the body is not JSON");
  }
  return FromJson(json, message);
}

Result<v1::ListRequest> ParseList(const httplib::Request& http) {
  v1::ListRequest request;
  for (const auto& [key, value] : http.params) {
    if (key == "limit") {
      const auto limit = ParseInteger(value, 1, 1000);
      if (!limit) return Within("limit", limit.error());
      request.set_limit(static_cast<std::int32_t>(*limit));
    } else if (key == "after") {
      request.set_after(value);
    } else if (key == "kind") {
      request.set_kind(value);
    } else {
      return Fail(
          Code::kInvalidArgument,
          "there is no parameter {}; limit, after and kind are accepted",
          Excerpt(key));
    }
  }
  return request;
}

class HttpServer final : public RestServer {
 public:
  HttpServer(Coordinator& coordinator, Metrics& metrics)
      : coordinator_(coordinator), metrics_(metrics) {
    http_.set_payload_max_length(kMaxBodyBytes);
    http_.set_read_timeout(std::chrono::seconds(10));
    http_.set_keep_alive_timeout(5);
    // Without SO_REUSEPORT, which would let two processes share the port.
    http_.set_socket_options([](int socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    http_.set_error_handler(
        [](const httplib::Request& request, httplib::Response& response) {
          if (!response.body.empty()) return;
          const Code code =
              response.status == 404 ? Code::kNotFound : Code::kInvalidArgument;
          const int status = response.status;
          ReplyError({code, fmt::format("there is no {} {}", request.method,
                                        Excerpt(request.path, 200))},
                     &response);
          response.status = status;
        });
    AddRoutes();
  }
  ~HttpServer() override { Stop(); }

  Status Listen(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    const auto port = colon == std::string::npos
                          ? Fail(Code::kInvalidArgument, "no port")
                          : ParseInteger(address.substr(colon + 1), 0, 65535);
    if (!port) {
      return Fail(Code::kInvalidArgument,
                  "'{}' is not an address; host:port is accepted", address);
    }
    host_ = address.substr(0, colon);
    port_ = static_cast<int>(*port);
    const bool bound = port_ == 0 ? (port_ = http_.bind_to_any_port(host_)) > 0
                                  : http_.bind_to_port(host_, port_);
    if (!bound) {
      return Fail(Code::kUnavailable, "cannot listen on {} for HTTP", address);
    }
    thread_ = std::thread([this] {
      Serve();
      ended_ = true;
    });
    return {};
  }

  int port() const override { return port_; }

  void Stop() override {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    // stop() has no effect before the listener runs.
    while (!http_.is_running() && !ended_) std::this_thread::yield();
    if (!ended_) http_.stop();
    thread_.join();
  }

 private:
  // The listener ends if it cannot accept connections, as when memory runs out;
  // it is then set up again.
  void Serve() {
    constexpr std::chrono::milliseconds kPause{200};
    for (bool bound = true;; bound = http_.bind_to_port(host_, port_)) {
      if (bound) http_.listen_after_bind();
      std::unique_lock lock(mutex_);
      if (stopping_) return;
      spdlog::error("event=http_listener_{} port={} retry_ms={}",
                    bound ? "ended" : "failed", port_, kPause.count());
      if (changed_.wait_for(lock, kPause, [this] { return stopping_; })) {
        return;
      }
    }
  }

  // Answers with the message or the error that `call` returns.
  template <class Call>
  void Answer(const char* method, const Call& call,
              httplib::Response* response) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = call();
    Status outcome;
    if (result) {
      Reply(ToJson(*result), 200, response);
    } else {
      outcome = tl::unexpected<Error>(result.error());
      ReplyError(result.error(), response);
    }
    metrics_.CountRequest(method, outcome,
                          std::chrono::steady_clock::now() - start);
  }

  template <class ListResponse, class Item>
  void AddResource(
      const std::string& path, const char* list_name,
      Result<ListResponse> (Coordinator::*list)(const v1::ListRequest&),
      const char* get_name,
      Result<Item> (Coordinator::*get)(const v1::GetRequest&)) {
    http_.Get(path, [=, this](const httplib::Request& http,
                              httplib::Response& response) {
      Answer(
          list_name,
          [&]() -> Result<ListResponse> {
            UCUDNN_ASSIGN_OR_RETURN(const v1::ListRequest request,
                                    ParseList(http));
            return (coordinator_.*list)(request);
          },
          &response);
    });
    http_.Get(path + "/(.+)", [=, this](const httplib::Request& http,
                                        httplib::Response& response) {
      v1::GetRequest request;
      request.set_id(http.matches[1]);
      Answer(
          get_name, [&] { return (coordinator_.*get)(request); }, &response);
    });
  }

  void AddRoutes() {
    AddResource("/v1/agents", "ListAgents", &Coordinator::ListAgents,
                "GetAgent", &Coordinator::GetAgent);
    AddResource("/v1/devices", "ListDevices", &Coordinator::ListDevices,
                "GetDevice", &Coordinator::GetDevice);
    AddResource("/v1/networks", "ListNetworks", &Coordinator::ListNetworks,
                "GetNetwork", &Coordinator::GetNetwork);
    AddResource("/v1/profiles", "ListProfiles", &Coordinator::ListProfiles,
                "GetProfile", &Coordinator::GetProfile);
    AddResource("/v1/plans", "ListPlans", &Coordinator::ListPlans, "GetPlan",
                &Coordinator::GetPlan);
    AddResource("/v1/jobs", "ListJobs", &Coordinator::ListJobs, "GetJob",
                &Coordinator::GetJob);
    http_.Get("/v1/status", [this](const httplib::Request&,
                                   httplib::Response& response) {
      Answer(
          "GetStatus", [&] { return coordinator_.GetStatus({}); }, &response);
    });
    http_.Put("/v1/networks/(.+)", [this](const httplib::Request& http,
                                          httplib::Response& response) {
      v1::PutNetworkRequest request;
      request.set_name(http.matches[1]);
      request.set_content(http.body);
      Answer(
          "PutNetwork", [&] { return coordinator_.PutNetwork(request); },
          &response);
    });
    http_.Post("/v1/plans", [this](const httplib::Request& http,
                                   httplib::Response& response) {
      Answer(
          "CreatePlan",
          [&]() -> Result<v1::Plan> {
            v1::PlanRequest request;
            UCUDNN_RETURN_IF_ERROR(ParseBody(http.body, &request));
            return coordinator_.CreatePlan(request);
          },
          &response);
    });
    http_.Post("/v1/jobs/(.+)/replan", [this](const httplib::Request& http,
                                              httplib::Response& response) {
      Answer(
          "ReplanJob",
          [&]() -> Result<v1::JobRevision> {
            v1::ReplanJobRequest request;
            UCUDNN_RETURN_IF_ERROR(ParseBody(http.body, &request));
            request.set_job_id(http.matches[1]);
            return coordinator_.ReplanJob(request);
          },
          &response);
    });
    http_.Post("/v1/measure", [this](const httplib::Request& http,
                                     httplib::Response& response) {
      Answer(
          "Measure",
          [&]() -> Result<v1::MeasureProgress> {
            v1::MeasureRequest request;
            UCUDNN_RETURN_IF_ERROR(ParseBody(http.body, &request));
            return coordinator_.Measure(request);
          },
          &response);
    });
    http_.Get("/livez",
              [](const httplib::Request&, httplib::Response& response) {
                response.set_content("ok\n", "text/plain");
              });
    http_.Get("/readyz",
              [this](const httplib::Request&, httplib::Response& response) {
                if (const Status ready = coordinator_.Ready(); !ready) {
                  ReplyError(ready.error(), &response);
                  return;
                }
                response.set_content("ok\n", "text/plain");
              });
    http_.Get("/metrics", [this](const httplib::Request&,
                                 httplib::Response& response) {
      const auto status = coordinator_.GetStatus({});
      if (!status) {
        ReplyError(status.error(), &response);
        return;
      }
      response.set_content(metrics_.Text(*status),
                           "application/openmetrics-text; version=1.0.0; "
                           "charset=utf-8");
    });
  }

  Coordinator& coordinator_;
  Metrics& metrics_;
  httplib::Server http_;
  std::string host_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<RestServer>> RestServer::Start(
    const std::string& address, Coordinator& coordinator, Metrics& metrics) {
  auto server = std::make_unique<HttpServer>(coordinator, metrics);
  UCUDNN_RETURN_IF_ERROR(server->Listen(address));
  return server;
}

}  // namespace ucudnn
