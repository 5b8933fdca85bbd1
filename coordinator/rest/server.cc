#include "coordinator/rest/server.h"

#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "base/files/json_object.h"
#include "base/plan/job_plan.h"
#include "base/text.h"
#include "base/units.h"
#include "coordinator/dispatcher.h"
#include "coordinator/limits.h"
#include "coordinator/networks/stored_network.h"
#include "coordinator/request_check.h"
#include "coordinator/rest/etag.h"
#include "coordinator/rest/http_listener.h"
#include "coordinator/rest/openapi.h"
#include "coordinator/rest/page.h"
#include "coordinator/rest/probes.h"
#include "coordinator/rest/problem.h"
#include "proto/json.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using Http = httplib::Request;

void Reply(const google::protobuf::Message& body, httplib::Response* response) {
  response->status = 200;
  response->set_content(JsonText(body) + "\n", "application/json");
}

// Commas in a body. The plan of kMaxJsonBytes (limits.h) has 16,384.
constexpr std::ptrdiff_t kMaxCommas = 1 << 17;

template <class Message>
Result<Message> ParseBody(const std::string& body) {
  if (std::ranges::count(body, ',') > kMaxCommas) {
    return Fail(Code::kInvalidArgument,
                "the body has more than {} values; no request has", kMaxCommas);
  }
  // Before it is freed, a message that is out of bounds takes many times its
  // text.
  static std::mutex one_long;
  std::unique_lock lock(one_long, std::defer_lock);
  if (body.size() > kLongBodyBytes) lock.lock();
  Result<Json> json = ParseJson(body);
  if (!json) return Within("the body", std::move(json).error());
  Message message;
  UCUDNN_RETURN_IF_ERROR(FromJson(*json, &message));
  UCUDNN_RETURN_IF_ERROR(CheckRequest(message));
  return message;
}

// A whole number of the address, named `name`.
Result<std::int64_t> Number(const std::string& name, const std::string& text,
                            std::int64_t max) {
  auto number = ParseInteger(text, 0, max);
  if (!number) return Within(name, std::move(number).error());
  return number;
}

// PUT /v1/networks/{id}?input_shape=
Result<v1::PutNetworkRequest> ParsePut(const Http& http) {
  v1::PutNetworkRequest request;
  request.set_name(http.matches[1]);
  for (const auto& [key, value] : http.params) {
    if (key != "input_shape") {
      return Fail(Code::kInvalidArgument,
                  "there is no parameter {}; input_shape is accepted",
                  Excerpt(key));
    }
    request.add_input_shape(value);
  }
  request.set_content(http.body);
  return request;
}

// DELETE /v1/networks/{id}?who=&reason=
Result<v1::DeleteRequest> ParseDelete(const Http& http) {
  v1::DeleteRequest request;
  request.set_id(http.matches[1]);
  for (const auto& [key, value] : http.params) {
    if (key == "who") {
      request.set_who(value);
    } else if (key == "reason") {
      request.set_reason(value);
    } else {
      return Fail(Code::kInvalidArgument,
                  "there is no parameter {}; who and reason are accepted",
                  Excerpt(key));
    }
  }
  return request;
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
    } else if (key == "state") {
      request.set_state(value);
    } else if (key == "campaign") {
      UCUDNN_ASSIGN_OR_RETURN(const std::int64_t id,
                              Number(key, value, kMaxCount));
      request.set_campaign_id(id);
    } else {
      return Fail(Code::kInvalidArgument,
                  "there is no parameter {}; limit, after, kind, state and "
                  "campaign are accepted",
                  Excerpt(key));
    }
  }
  return request;
}

// /v1/plans/{id}/front?rank=&layer=&op=
Result<v1::GetFrontRequest> ParseFront(const Http& http) {
  v1::GetFrontRequest request;
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t plan,
                          Number("plan id", http.matches[1], kMaxCount));
  request.set_plan_id(plan);
  for (const auto& [key, value] : http.params) {
    if (key == "rank") {
      UCUDNN_ASSIGN_OR_RETURN(const std::int64_t rank,
                              Number(key, value, kMaxRanks));
      request.set_rank(static_cast<std::int32_t>(rank));
    } else if (key == "layer") {
      request.set_layer(value);
    } else if (key == "op") {
      request.set_op(value);
    } else {
      return Fail(Code::kInvalidArgument,
                  "there is no parameter {}; rank, layer and op are accepted",
                  Excerpt(key));
    }
  }
  return request;
}

// /v1/jobs/{id}/ranks/{rank}
Result<v1::GetJobRankRequest> ParseJobRank(const Http& http) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t rank,
                          Number("rank", http.matches[2], kMaxRanks));
  v1::GetJobRankRequest request;
  request.set_job_id(http.matches[1]);
  request.set_rank(static_cast<std::int32_t>(rank));
  return request;
}

Peer PeerOf(const Http& http) {
  return {.host = http.remote_addr,
          .certificate = HttpListener::ClientCertificate(),
          .authorization = http.get_header_value("Authorization")};
}

class Server final : public RestServer {
 public:
  // Serves probes alone if there is no page.
  Server(Dispatcher& dispatcher, const Health& health, const Page* page)
      : dispatcher_(dispatcher),
        http_(page == nullptr ? kMaxProbeConnections : kMaxHttpConnections,
              dispatcher.guard()) {
    if (page != nullptr) {
      AddRoutes();
      AddPage(*page, &http_);
    }
    AddProbes(dispatcher, health, &http_);
  }

  Status Listen(const std::string& address) { return http_.Listen(address); }
  int port() const override { return http_.port(); }
  std::vector<HttpRoute> routes() const override { return http_.routes(); }
  void Stop() override { http_.Stop(); }

 private:
  // Answers with what the coordinator's `call` returns to the request, if that
  // could be read.
  template <class Service, class Request, class Response>
  void Answer(const Http& http, const char* method,
              Result<Response> (Service::*call)(const Request&),
              const std::type_identity_t<Result<Request>>& request,
              httplib::Response* response) {
    if (!request) {
      dispatcher_.Count(method, tl::unexpected<Error>(request.error()),
                        std::chrono::steady_clock::now());
      return ReplyError(request.error(), response);
    }
    const auto result = dispatcher_.Run(PeerOf(http), method, call, *request);
    if (!result) return ReplyError(result.error(), response);
    Reply(*result, response);
  }

  template <class Service, class Response>
  void AddList(const std::string& path, const char* name,
               Result<Response> (Service::*call)(const v1::ListRequest&)) {
    http_.Route("GET", path,
                [=, this](const Http& http, httplib::Response* response) {
                  Answer(http, name, call, ParseList(http), response);
                });
  }

  template <class Service, class Response>
  void AddGet(const std::string& path, const char* name,
              Result<Response> (Service::*call)(const v1::GetRequest&)) {
    http_.Route("GET", path + "/(.+)",
                [=, this](const Http& http, httplib::Response* response) {
                  v1::GetRequest request;
                  request.set_id(http.matches[1]);
                  Answer(http, name, call, request, response);
                });
  }

  // The same, for what clients may have already.
  template <class Service, class Response>
  void AddTaggedGet(const std::string& path, const char* name,
                    Result<Response> (Service::*call)(const v1::GetRequest&)) {
    http_.Route("GET", path + "/(.+)",
                [=, this](const Http& http, httplib::Response* response) {
                  v1::GetRequest request;
                  request.set_id(http.matches[1]);
                  Answer(http, name, call, request, response);
                  if (response->status != 200) return;
                  SetTag(http, Sha256(response->body), response);
                });
  }

  template <class Service>
  void AddDelete(
      const std::string& path, const char* name,
      Result<v1::DeleteResponse> (Service::*call)(const v1::DeleteRequest&)) {
    http_.Route("DELETE", path + "/(.+)",
                [=, this](const Http& http, httplib::Response* response) {
                  Answer(http, name, call, ParseDelete(http), response);
                });
  }

  // A whole profile, written page by page while it is loaded.
  void GetProfile(const Http& http, httplib::Response* response) {
    v1::GetProfileRequest request;
    request.set_id(http.matches[1]);
    const auto next = [this,
                       peer = PeerOf(http)](const v1::GetProfileRequest& of) {
      return dispatcher_.Run(peer, "GetProfile", &MeasuringService::GetProfile,
                             of);
    };
    Result<v1::Profile> page = next(request);
    if (!page) return ReplyError(page.error(), response);
    response->status = 200;
    response->set_chunked_content_provider(
        "application/json",
        [next, request, page = *std::move(page), written = std::size_t{0}](
            std::size_t /*offset*/, httplib::DataSink& sink) mutable {
          std::string text;
          if (written == 0) {
            text = "{\"id\": " + Json(request.id()).dump();
            if (page.has_device_model()) {
              text += ", \"device_model\": " + JsonLine(page.device_model());
            }
            text += ", \"problems\": [";
          }
          for (const v1::ProblemProfile& problem : page.problems()) {
            text += written++ == 0 ? "\n" : ",\n";
            text += JsonLine(problem);
          }
          const bool last = page.problems().empty();
          if (last) text += "\n]}\n";
          if (!sink.write(text.data(), text.size())) return false;
          if (last) {
            sink.done();
            return true;
          }
          request.set_after(page.problems().rbegin()->problem());
          Result<v1::Profile> more = next(request);
          if (!more) return false;
          page = *std::move(more);
          return true;
        });
  }

  // A call whose request is the body, to which `complete` adds what the path
  // says.
  template <class Service, class Request, class Response, class Complete>
  void AddCall(const std::string& path, const char* name,
               Result<Response> (Service::*call)(const Request&),
               const Complete& complete) {
    http_.Route("POST", path,
                [=, this](const Http& http, httplib::Response* response) {
                  Result<Request> request = ParseBody<Request>(http.body);
                  if (request) complete(http, &*request);
                  Answer(http, name, call, request, response);
                },
                {kMaxJsonBytes, {"application/json"}, Authenticated(name)});
  }

  // Finds out before the body is read whether the caller is known.
  std::function<Status(const Http&)> Authenticated(const char* method) {
    return [=, this](const Http& http) {
      return dispatcher_.Authenticate(PeerOf(http), method);
    };
  }

  void AddRoutes() {
    http_.Route("GET", "/openapi\\.json",
                [](const Http& http, httplib::Response* response) {
                  static const std::string hash = Sha256(OpenApiText());
                  response->set_content(OpenApiText().data(),
                                        OpenApiText().size(),
                                        "application/json");
                  SetTag(http, hash, response);
                });
    // Before plans, jobs and profiles, whose ids may be anything.
    http_.Route("GET", "/v1/plans/([^/]+)/front",
                [this](const Http& http, httplib::Response* response) {
                  Answer(http, "GetFront", &PlanService::GetFront,
                         ParseFront(http), response);
                });
    http_.Route("GET", "/v1/jobs/(.+)/ranks/([^/]+)",
                [this](const Http& http, httplib::Response* response) {
                  Answer(http, "GetJobRank", &JobService::GetJobRank,
                         ParseJobRank(http), response);
                });
    http_.Route("GET", "/v1/profiles/(.+)/problems/([^/]+)",
                [this](const Http& http, httplib::Response* response) {
                  v1::GetProblemProfileRequest request;
                  request.set_kind(http.matches[1]);
                  request.set_problem(http.matches[2]);
                  Answer(http, "GetProblemProfile",
                         &MeasuringService::GetProblemProfile, request,
                         response);
                });
    AddList("/v1/campaigns", "ListCampaigns", &MeasuringService::ListCampaigns);
    AddGet("/v1/campaigns", "GetCampaign", &MeasuringService::GetCampaign);
    AddList("/v1/tasks", "ListTasks", &MeasuringService::ListTasks);
    AddGet("/v1/tasks", "GetTask", &MeasuringService::GetTask);
    AddList("/v1/actions", "ListActions", &UpkeepService::ListActions);
    AddList("/v1/agents", "ListAgents", &AgentService::ListAgents);
    AddGet("/v1/agents", "GetAgent", &AgentService::GetAgent);
    AddList("/v1/devices", "ListDevices", &MeasuringService::ListDevices);
    AddGet("/v1/devices", "GetDevice", &MeasuringService::GetDevice);
    AddList("/v1/networks", "ListNetworks", &NetworkService::ListNetworks);
    AddTaggedGet("/v1/networks", "GetNetwork", &NetworkService::GetNetwork);
    AddList("/v1/profiles", "ListProfiles", &MeasuringService::ListProfiles);
    http_.Route("GET", "/v1/profiles/(.+)",
                [this](const Http& http, httplib::Response* response) {
                  GetProfile(http, response);
                });
    AddList("/v1/plans", "ListPlans", &PlanService::ListPlans);
    AddTaggedGet("/v1/plans", "GetPlan", &PlanService::GetPlan);
    AddList("/v1/jobs", "ListJobs", &JobService::ListJobs);
    AddGet("/v1/jobs", "GetJob", &JobService::GetJob);
    AddDelete("/v1/networks", "DeleteNetwork", &UpkeepService::DeleteNetwork);
    AddDelete("/v1/plans", "DeletePlan", &PlanService::DeletePlan);
    AddDelete("/v1/jobs", "DeleteJob", &JobService::DeleteJob);
    AddDelete("/v1/agents", "DeleteAgent", &AgentService::DeleteAgent);
    http_.Route("GET", "/v1/status",
                [this](const Http& http, httplib::Response* response) {
                  Answer(http, "GetStatus", &UpkeepService::GetStatus,
                         v1::StatusRequest(), response);
                });
    http_.Route("PUT", "/v1/networks/(.+)",
                [this](const Http& http, httplib::Response* response) {
                  Answer(http, "PutNetwork", &NetworkService::PutNetwork,
                         ParsePut(http), response);
                },
                {kMaxRequestBytes,
                 {"text/csv", "application/octet-stream"},
                 Authenticated("PutNetwork")});
    const auto as_it_is = [](const Http&, auto*) {};
    AddCall("/v1/plans", "CreatePlan", &PlanService::CreatePlan, as_it_is);
    AddCall("/v1/allocate", "Allocate", &PlanService::Allocate, as_it_is);
    AddCall("/v1/agents/(.+)/hold", "HoldAgent", &JobService::HoldAgent,
            [](const Http& http, v1::HoldAgentRequest* request) {
              request->set_agent_id(http.matches[1]);
            });
    AddCall("/v1/prune", "Prune", &UpkeepService::Prune, as_it_is);
    AddCall("/v1/cancel", "CancelTasks", &MeasuringService::CancelTasks,
            as_it_is);
    AddCall("/v1/measure", "Measure", &JobService::Measure, as_it_is);
    AddCall("/v1/jobs/(.+)/replan", "ReplanJob", &JobService::ReplanJob,
            [](const Http& http, v1::ReplanJobRequest* request) {
              request->set_job_id(http.matches[1]);
            });
  }

  Dispatcher& dispatcher_;
  HttpListener http_;
};

Result<std::unique_ptr<RestServer>> Listen(const std::string& address,
                                           Dispatcher& dispatcher,
                                           const Health& health,
                                           const Page* page) {
  auto server = std::make_unique<Server>(dispatcher, health, page);
  UCUDNN_RETURN_IF_ERROR(server->Listen(address));
  return server;
}

}  // namespace

Result<std::unique_ptr<RestServer>> RestServer::Start(
    const std::string& address, Dispatcher& dispatcher, const Health& health,
    const Page& page) {
  return Listen(address, dispatcher, health, &page);
}

Result<std::unique_ptr<RestServer>> RestServer::StartProbes(
    const std::string& address, Dispatcher& dispatcher, const Health& health) {
  return Listen(address, dispatcher, health, nullptr);
}

}  // namespace ucudnn
