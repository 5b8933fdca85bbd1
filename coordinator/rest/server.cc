#include "coordinator/rest/server.h"

#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/files/json_object.h"
#include "base/plan/job_plan.h"
#include "base/text.h"
#include "base/units.h"
#include "coordinator/dispatcher.h"
#include "coordinator/limits.h"
#include "coordinator/networks/stored_network.h"
#include "coordinator/page.h"
#include "coordinator/request_check.h"
#include "coordinator/rest/etag.h"
#include "coordinator/rest/http_server.h"
#include "coordinator/rest/openapi.h"
#include "coordinator/rest/page.h"
#include "coordinator/rest/probes.h"
#include "coordinator/rest/problem.h"
#include "proto/json.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Commas in a body. The plan of kMaxJsonBytes (limits.h) has 16,384.
constexpr std::ptrdiff_t kMaxCommas = 1 << 17;

Status ParseBody(const std::string& body, Message* message) {
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
  UCUDNN_RETURN_IF_ERROR(FromJson(*json, message));
  return CheckRequest(*message);
}

// Where a call's request is in an HTTP request (CallSpec::route).
struct Route {
  std::string method;
  std::string path;
  std::vector<std::string> fields;  // that the path gives
  std::vector<std::pair<std::string, std::string>> query;  // key, field
};

Route ParseRoute(std::string_view text) {
  Route route;
  const std::size_t blank = text.find(' ');
  route.method = text.substr(0, blank);
  const std::size_t query = text.find('?');
  route.path = text.substr(blank + 1, query - blank - 1);
  for (std::size_t at = 0; (at = route.path.find('{', at)) != std::string::npos;
       ++at) {
    route.fields.push_back(
        route.path.substr(at + 1, route.path.find('}', at) - at - 1));
  }
  if (query == std::string_view::npos) return route;
  for (auto& [key, field] : ParseQuery(text.substr(query + 1))) {
    route.query.emplace_back(key, field.empty() ? key : field);
  }
  return route;
}

// Sets a field of the request; `key` is how the client knows it.
Status SetField(const std::string& key, const std::string& name,
                const std::string& text, Message* message) {
  const FieldDescriptor* field =
      message->GetDescriptor()->FindFieldByName(name);
  UCUDNN_CHECK(field != nullptr);
  const auto& reflection = *message->GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    if (field->is_repeated()) {
      reflection.AddString(message, field, text);
    } else {
      reflection.SetString(message, field, text);
    }
    return {};
  }
  const bool is_limit = key == "limit";
  const bool is_short = field->cpp_type() == FieldDescriptor::CPPTYPE_INT32;
  auto number = ParseInteger(
      text, is_limit ? 1 : 0,
      is_limit ? kMaxPage : (is_short ? std::int64_t{kMaxRanks} : kMaxCount));
  if (!number) return Within(key, std::move(number).error());
  if (is_short) {
    reflection.SetInt32(message, field, static_cast<std::int32_t>(*number));
  } else {
    reflection.SetInt64(message, field, *number);
  }
  return {};
}

Result<std::unique_ptr<Message>> ReadRequest(const CallSpec& call,
                                             const Route& route,
                                             const HttpRequest& http) {
  std::unique_ptr<Message> message = call.new_request();
  if (route.method == "POST") {
    UCUDNN_RETURN_IF_ERROR(ParseBody(http.body, message.get()));
  } else if (route.method == "PUT") {
    UCUDNN_RETURN_IF_ERROR(
        SetField("content", "content", http.body, message.get()));
  }
  for (std::size_t i = 0; i < route.fields.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(SetField(route.fields[i], route.fields[i],
                                    http.matches[i], message.get()));
  }
  for (const auto& [key, value] : http.query) {
    const auto known = std::ranges::find(route.query, key,
                                         [](const auto& q) { return q.first; });
    if (known == route.query.end()) {
      std::vector<std::string> keys;
      for (const auto& [other, field] : route.query) keys.push_back(other);
      return Fail(Code::kInvalidArgument,
                  "there is no parameter {}; {} accepted", Excerpt(key),
                  keys.empty() ? "none is"
                               : fmt::format("{} {}", fmt::join(keys, ", "),
                                             keys.size() == 1 ? "is" : "are"));
    }
    UCUDNN_RETURN_IF_ERROR(SetField(key, known->second, value, message.get()));
  }
  return message;
}

std::string JsonTextOf(const CallSpec& call, const Answer& answer) {
  if (answer.bytes == nullptr) return JsonText(*answer.message) + "\n";
  const std::unique_ptr<Message> message = call.new_response();
  UCUDNN_CHECK(message->ParseFromString(*answer.bytes));
  return JsonText(*message) + "\n";
}

HttpResponse OfJson(std::string text) {
  HttpResponse response;
  response.type = "application/json";
  response.body = std::move(text);
  return response;
}

// A whole profile, written page by page while it is loaded.
class ProfilePages : public std::enable_shared_from_this<ProfilePages> {
 public:
  ProfilePages(Dispatcher& dispatcher, const CallSpec& call,
               const HttpRequest& http)
      : dispatcher_(dispatcher), call_(call), peer_(http.peer) {
    request_.set_id(http.matches[0]);
  }

  // Gives the text of the next page; empty after the last.
  void Next(HttpResponse::Give give) {
    if (ended_) return give(std::string());
    dispatcher_.Start(
        {.call = call_,
         .peer = peer_,
         .read =
             [self = shared_from_this()]() -> Result<std::unique_ptr<Message>> {
           return std::make_unique<v1::GetProfileRequest>(self->request_);
         },
         .wanted = [] { return true; },
         .answer =
             [self = shared_from_this(), give = std::move(give)](
                 Result<Answer> answer, bool /*busy*/) {
               if (!answer) return give(tl::unexpected<Error>(answer.error()));
               give(self->TextOf(
                   static_cast<const v1::Profile&>(*answer->message)));
             }});
  }

 private:
  std::string TextOf(const v1::Profile& page) {
    std::string text;
    const bool first = request_.after().empty();
    if (first) {
      text = "{\"id\": " + Json(request_.id()).dump();
      if (page.has_device_model()) {
        text += ", \"device_model\": " + JsonLine(page.device_model());
      }
      text += ", \"problems\": [";
    }
    for (const v1::ProblemProfile& problem : page.problems()) {
      text += first && &problem == &page.problems(0) ? "\n" : ",\n";
      text += JsonLine(problem);
      request_.set_after(problem.problem());
    }
    ended_ = page.problems().empty();
    if (ended_) text += "\n]}\n";
    return text;
  }

  Dispatcher& dispatcher_;
  const CallSpec& call_;
  const Peer peer_;
  v1::GetProfileRequest request_;  // of the next page
  bool ended_ = false;
};

class Server final : public RestServer {
 public:
  // Serves probes alone if there is no page.
  Server(Dispatcher& dispatcher, const Health& health, const Page* page)
      : dispatcher_(dispatcher),
        http_(page == nullptr ? kMaxProbeConnections : kMaxHttpConnections,
              dispatcher.guard()) {
    if (page != nullptr) {
      http_.Get("/openapi.json", [](const HttpRequest& request) {
        static const std::string hash = Sha256(OpenApiText());
        HttpResponse response = OfJson(std::string(OpenApiText()));
        SetTag(request, hash, &response);
        return response;
      });
      for (const CallSpec& call : Calls()) {
        if (!call.route.empty()) AddCall(call);
      }
      AddPage(*page, &http_);
    }
    AddProbes(dispatcher, health, &http_);
  }

  Status Listen(const std::string& address) { return http_.Listen(address); }
  int port() const override { return http_.port(); }
  std::vector<HttpRoute> routes() const override { return http_.routes(); }
  void Stop() override { http_.Stop(); }

 private:
  using Shared = std::shared_ptr<const HttpRequest>;

  void AddCall(const CallSpec& call) {
    const Route route = ParseRoute(call.route);
    HttpBody body;
    if (!call.body_types.empty()) {
      body.max_bytes =
          route.method == "PUT" ? std::size_t{kMaxRequestBytes} : kMaxJsonBytes;
      body.types.assign(call.body_types.begin(), call.body_types.end());
      body.admit = [this, &call](const HttpRequest& request) {
        return dispatcher_.Authenticate(request.peer, call);
      };
    }
    http_.Route(
        route.method, route.path,
        [this, &call, route](const Shared& request, HttpReply reply) {
          if (call.name == "GetProfile") {
            ReplyPages(call, *request, std::move(reply));
          } else {
            Reply(call, route, request, std::move(reply));
          }
        },
        std::move(body));
  }

  void Reply(const CallSpec& call, const Route& route, const Shared& request,
             HttpReply reply) {
    dispatcher_.Start(
        {.call = call,
         .peer = request->peer,
         .read = [&call, route,
                  request] { return ReadRequest(call, route, *request); },
         .wanted = [] { return true; },
         .answer =
             [&call, request, reply = std::move(reply)](Result<Answer> answer,
                                                        bool /*busy*/) {
               if (!answer) return reply(Problem(answer.error()));
               HttpResponse response = OfJson(JsonTextOf(call, *answer));
               if (call.has_tag)
                 SetTag(*request, Sha256(response.body), &response);
               reply(std::move(response));
             }});
  }

  void ReplyPages(const CallSpec& call, const HttpRequest& request,
                  HttpReply reply) {
    const auto pages =
        std::make_shared<ProfilePages>(dispatcher_, call, request);
    pages->Next([pages, reply = std::move(reply)](Result<std::string> first) {
      if (!first) return reply(Problem(first.error()));
      HttpResponse response = OfJson(*std::move(first));
      response.next = [pages](HttpResponse::Give give) {
        pages->Next(std::move(give));
      };
      reply(std::move(response));
    });
  }

  Dispatcher& dispatcher_;
  HttpServer http_;
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
