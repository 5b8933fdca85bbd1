// openapi.json against what REST really answers.

#include "coordinator/rest/openapi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <array>
#include <cctype>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "coordinator/calls.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/metrics.h"
#include "coordinator/rest/http_server.h"
#include "coordinator/rest/page.h"
#include "coordinator/rest/server.h"
#include "tests/coordinator/tiny_cluster.h"
#include "tests/support/fake_clock.h"
#include "tests/support/process.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

using test::kKind;
using test::kNetwork;

constexpr const char* kStep = R"({"kinds": [
    {"device_kind": "K", "steps": [{"batch": 4, "time_us": 1.5}]}]})";

const Json& Document() {
  static const Json document = Json::parse(OpenApiText());
  return document;
}

const Json& Resolved(const Json& schema) {
  if (!schema.contains("$ref")) return schema;
  const std::string ref = schema["$ref"];  // "#/components/..."
  return Document().at(Json::json_pointer(ref.substr(1)));
}

std::string TypeOf(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_number_integer() ? "integer" : "number";
}

bool HasType(const Json& value, const std::string& type) {
  const std::string own = TypeOf(value);
  return own == type || (own == "integer" && type == "number");
}

// What is wrong with the value; empty if it is as the schema says.
std::string Mismatch(const std::string& place, const Json& value,
                     const Json& named) {
  const Json& schema = Resolved(named);
  if (schema.contains("oneOf")) {
    std::string all;
    for (const Json& one : schema["oneOf"]) {
      const std::string wrong = Mismatch(place, value, one);
      if (wrong.empty()) return "";
      all += wrong + "; ";
    }
    return all;
  }
  const Json types = schema["type"].is_array() ? schema["type"]
                                               : Json::array({schema["type"]});
  bool fits = false;
  for (const Json& type : types) {
    fits = fits || HasType(value, type.get<std::string>());
  }
  if (!fits) return place + " is " + TypeOf(value) + ", not " + types.dump();
  if (value.is_array()) {
    for (const Json& element : value) {
      const std::string wrong =
          Mismatch(place + "[]", element, schema["items"]);
      if (!wrong.empty()) return wrong;
    }
  }
  if (!value.is_object() || !schema.contains("properties")) return "";
  for (const auto& [name, member] : value.items()) {
    if (!schema["properties"].contains(name)) {
      return place + "." + name + " is not documented";
    }
    const std::string wrong =
        Mismatch(place + "." + name, member, schema["properties"][name]);
    if (!wrong.empty()) return wrong;
  }
  for (const auto& [name, unused] : schema["properties"].items()) {
    // A streamed profile may lack its device model.
    if (!value.contains(name) && name != "device_model") {
      return place + " lacks " + name;
    }
  }
  return "";
}

class OpenApiTest : public ::testing::Test {
 protected:
  // A node with a device that measures, a network, its plan, and a job that
  // runs the plan and one that ended.
  OpenApiTest() {
    UCUDNN_CHECK(coordinator_.agents.Register(test::Agent("node-1", "device-0"))
                     .has_value());
    UCUDNN_CHECK(coordinator_.networks.PutNetwork(test::PutTiny()).has_value());
    v1::PutStepRequest step;
    step.set_name("resnet");
    step.set_content(kStep);
    UCUDNN_CHECK(coordinator_.steps.PutStep(step).has_value());
    constexpr std::array<std::int64_t, 3> kBatches = {1, 2, 4};
    UCUDNN_CHECK(
        coordinator_.measuring.PutProfile(test::Measured(kKind, 10, kBatches))
            .has_value());
    request_.set_network("tiny");
    request_.set_batch(4);
    request_.set_workspace_limit_bytes(1 << 20);
    request_.set_batch_policy("undivided");
    request_.add_device_kinds(kKind);
    const auto plan = coordinator_.plans.CreatePlan(request_);
    UCUDNN_CHECK(plan.has_value() && plan->id() == 1);
    AddJob("job");
    AddJob("ended");
    v1::FinishJobRequest finish;
    finish.set_job_id("ended");
    UCUDNN_CHECK(coordinator_.jobs.FinishJob(finish).has_value());
    // A campaign with a task that the device measures.
    v1::MeasureRequest measure;
    *measure.mutable_plan() = request_;
    measure.mutable_plan()->set_batch(8);
    UCUDNN_CHECK(coordinator_.jobs.Measure(measure).has_value());
    v1::LeaseTasksRequest lease;
    lease.set_agent_id("node-1");
    lease.set_device_id("device-0");
    lease.set_max_tasks(1);
    UCUDNN_CHECK(coordinator_.measuring.LeaseTasks(lease)->tasks_size() == 1);
    v1::HoldAgentRequest hold;
    hold.set_agent_id("node-1");
    hold.set_what("resume");
    UCUDNN_CHECK(coordinator_.jobs.HoldAgent(hold).has_value());
  }

  void AddJob(const std::string& id) {
    v1::RegisterJobRequest job;
    job.set_job_id(id);
    *job.mutable_request() = request_;
    job.set_plan_id(1);
    job.add_ranks()->set_device_id("device-0");
    UCUDNN_CHECK(coordinator_.jobs.RegisterJob(job).has_value());
    v1::ReportStepsRequest report;
    report.set_job_id(id);
    v1::StepBatch& batch = *report.add_batches();
    batch.set_revision(1);
    for (int step = 0; step < 40; ++step) batch.add_step_ns(20'000);
    UCUDNN_CHECK(coordinator_.jobs.ReportSteps(report).has_value());
  }

  // The path of an operation with the examples of its parameters.
  static std::string Example(std::string path, const Json& operation) {
    if (!operation.contains("parameters")) return path;
    for (const Json& parameter : operation["parameters"]) {
      if (parameter["in"] != "path") continue;
      const std::string place =
          "{" + parameter["name"].get<std::string>() + "}";
      path.replace(path.find(place), place.size(),
                   parameter["example"].get<std::string>());
    }
    return path;
  }

  // Calls `body` with the path, its example, the method and the operation.
  template <class Body>
  static void ForEachOperation(const Body& body) {
    for (const auto& [path, methods] : Document()["paths"].items()) {
      for (const auto& [method, operation] : methods.items()) {
        body(path, Example(path, operation), method, operation);
      }
    }
  }

  httplib::Result Call(const std::string& path, const std::string& method,
                       const std::string& id) {
    httplib::Client http("127.0.0.1", server_->port());
    const std::map<std::string, std::string> bodies = {
        {"HoldAgent", R"({"what": "cordon"})"},
        {"Measure",
         R"({"plan": {"network": "tiny", "batch": 4}, "dry_run": true})"},
        {"CancelTasks", R"({"campaign_id": 1})"},
        {"CreatePlan",
         R"({"network": "tiny", "batch": 4, "batch_policy": "undivided",
             "workspace_limit_bytes": 1048576,
             "device_kinds": ["TEST/1u/1GiB/test-1.0"]})"},
        {"RegisterJob", R"({"job_id": "posted", "ranks": [{"rank": 0}]})"},
        {"ReportSteps", R"({"batches": [{"revision": 1, "step_us": [20.5]}]})"},
        {"AnswerRevision", R"({"revision": 1})"},
        {"FinishJob", "{}"},
        {"ReplanJob", R"({"workspace_limit_bytes": 1048575})"},
        {"Prune", R"({"dry_run": true, "keep_jobs_days": 1})"},
        {"Allocate",
         R"({"jobs": [{"name": "a", "plan": {"network": "tiny", "batch": 4}}],
             "devices": [{"kind": "TEST/1u/1GiB/test-1.0", "count": 1}]})"},
    };
    if (id == "PutStep") return http.Put(path, kStep, "application/json");
    if (method == "put") return http.Put(path, kNetwork, "text/csv");
    if (method == "post") {
      return http.Post(path, bodies.at(id), "application/json");
    }
    if (method == "delete") return http.Delete(path);
    return http.Get(id == "GetFront" ? path + "?rank=0&layer=conv1&op=forward"
                                     : path);
  }

  FakeClock clock_{1'000'000};
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  Metrics metrics_;
  Dispatcher dispatcher_{coordinator_, metrics_};
  const Health health_{[] { return Status(); }, [](const Status&) {}};
  v1::PlanRequest request_;
  std::unique_ptr<RestServer> server_ =
      RestServer::Start("127.0.0.1:0", dispatcher_, health_, Page()).value();
};

// "GET /v1/jobs/{}/ranks/{}": parameters of paths are fields of messages in
// the table of calls, and have shorter names in the document.
std::string NameOf(const std::string& method, const std::string& path) {
  std::string name = method + " ";
  for (char& c : name) c = static_cast<char>(std::toupper(c));
  return name + std::regex_replace(path, std::regex(R"(\{\w+\})"), "{}");
}

TEST_F(OpenApiTest, NamesEachRouteAndNoOther) {
  std::set<std::string> documented;
  ForEachOperation([&](const std::string& path, const std::string&,
                       const std::string& method, const Json& operation) {
    documented.insert(NameOf(method, path));
    const CallSpec* call =
        FindCall(operation["operationId"].get<std::string>());
    if (call == nullptr) return;  // a probe, or the document
    const std::string route(call->route.substr(0, call->route.find('?')));
    EXPECT_EQ(NameOf("", route), " " + NameOf(method, path));
  });
  std::set<std::string> served;
  for (const HttpRoute& route : server_->routes()) {
    if (route.path != "/") served.insert(NameOf(route.method, route.path));
  }
  EXPECT_EQ(documented, served);
}

TEST_F(OpenApiTest, TellsTheFieldsOfEachAnswer) {
  // Deletions last, and of what nothing needs.
  std::vector<std::string> order = {"get", "put", "post", "delete"};
  std::set<std::string> answered;
  for (const std::string& turn : order) {
    ForEachOperation([&](const std::string& path, std::string example,
                         const std::string& method, const Json& operation) {
      if (method != turn) return;
      const std::string id = operation["operationId"];
      if (id == "DeleteJob") example = "/v1/jobs/ended";
      if (id == "DeletePlan") example = "/v1/plans/2";
      if (id == "DeleteAgent") {
        ASSERT_TRUE(
            coordinator_.agents.Register(test::Agent("left", "left-0")));
        v1::LeaveRequest leave;
        leave.set_agent_id("left");
        ASSERT_TRUE(coordinator_.agents.Leave(leave));
        example = "/v1/agents/left";
      }
      if (id == "DeleteNetwork") {
        httplib::Client http("127.0.0.1", server_->port());
        ASSERT_EQ(http.Put("/v1/networks/other", kNetwork, "text/csv")->status,
                  200);
        example = "/v1/networks/other";
      }
      if (id == "DeletePlan") {
        // Another limit gives another plan, which no job has.
        v1::PlanRequest other = request_;
        other.set_workspace_limit_bytes(2 << 20);
        example = "/v1/plans/" +
                  std::to_string(coordinator_.plans.CreatePlan(other)->id());
      }
      const auto answer = Call(example, method, id);
      ASSERT_TRUE(answer) << method << " " << path;
      EXPECT_EQ(answer->status, 200)
          << method << " " << path << ": " << answer->body;
      const Json& content = operation["responses"]["200"]["content"];
      const std::string type = content.items().begin().key();
      EXPECT_THAT(answer->get_header_value("Content-Type"),
                  ::testing::StartsWith(type));
      if (type != "application/json") return;
      const Json body = Json::parse(answer->body, nullptr, false);
      EXPECT_EQ(Mismatch(id, body, content[type]["schema"]), "");
    });
  }
}

TEST_F(OpenApiTest, PagesEachList) {
  AddJob("another");
  int lists = 0;
  ForEachOperation([&](const std::string& path, const std::string&,
                       const std::string&, const Json& operation) {
    const std::string id = operation["operationId"];
    if (!id.starts_with("List")) return;
    ++lists;
    httplib::Client http("127.0.0.1", server_->port());
    const auto page = [&](const std::string& query) {
      const auto answer = http.Get(path + query);
      EXPECT_EQ(answer->status, 200) << path << query << answer->body;
      const Json body = Json::parse(answer->body, nullptr, false);
      return body.items().begin().value();
    };
    const Json all = page("?limit=1000");
    EXPECT_FALSE(all.empty()) << path;
    Json found = Json::array();
    std::string after;
    for (Json one = page("?limit=1"); !one.empty();
         one = page("?limit=1&after=" + after)) {
      ASSERT_EQ(one.size(), 1U) << path;
      found.push_back(one[0]);
      ASSERT_LE(found.size(), all.size()) << path;
      const Json& key = one[0].contains("id") ? one[0]["id"] : one[0]["name"];
      after = key.is_string()
                  ? httplib::detail::encode_query_param(key.get<std::string>())
                  : key.dump();
    }
    EXPECT_EQ(found, all) << path;
    for (const char* limit : {"0", "1001", "-1", "many"}) {
      EXPECT_EQ(http.Get(path + "?limit=" + limit)->status, 400)
          << path << " " << limit;
    }
  });
  EXPECT_EQ(lists, 10);
}

TEST_F(OpenApiTest, NamesEachParameterOfQueries) {
  int asked = 0;
  ForEachOperation([&](const std::string& path, const std::string& example,
                       const std::string& method, const Json& operation) {
    std::vector<std::string> names;
    for (const Json& parameter : operation.value("parameters", Json::array())) {
      if (parameter["in"] == "query") names.push_back(parameter["name"]);
    }
    if (names.empty()) return;
    ++asked;
    // Told with what is accepted. Files of networks and steps have other types.
    const std::string id = operation["operationId"];
    const auto answer =
        Call(example + "?unknown=1", method, id == "PutStep" ? id : "");
    ASSERT_EQ(answer->status, 400) << method << " " << path;
    for (const std::string& name : names) {
      EXPECT_THAT(answer->body, ::testing::HasSubstr(name)) << path;
    }
  });
  EXPECT_EQ(asked, 18);
}

TEST_F(OpenApiTest, TellsTheFieldsOfErrors) {
  httplib::Client http("127.0.0.1", server_->port());
  const Json& schema = Document()["components"]["schemas"]["Problem"];
  const auto check = [&](const httplib::Result& answer, int status,
                         const std::string& title, const std::string& code) {
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, status);
    EXPECT_EQ(answer->get_header_value("Content-Type"),
              "application/problem+json");
    const Json body = Json::parse(answer->body, nullptr, false);
    EXPECT_EQ(Mismatch("problem", body, schema), "");
    EXPECT_EQ(body["status"], status);
    EXPECT_EQ(body["title"], title);
    EXPECT_EQ(body["code"], code);
  };
  check(http.Get("/v1/jobs/none"), 404, "Not Found", "NOT_FOUND");
  check(http.Get("/v1/none"), 404, "Not Found", "NOT_FOUND");
  check(http.Delete("/v1/status"), 405, "Method Not Allowed", "UNIMPLEMENTED");
  check(http.Post("/v1/plans", "{", "application/json"), 400, "Bad Request",
        "INVALID_ARGUMENT");
  check(http.Delete("/v1/jobs/job"), 422, "Unprocessable Content",
        "FAILED_PRECONDITION");
}

TEST_F(OpenApiTest, SparesClientsWhatTheyHave) {
  httplib::Client http("127.0.0.1", server_->port());
  for (const char* path :
       {"/v1/plans/1", "/v1/networks/tiny", "/openapi.json"}) {
    const auto first = http.Get(path);
    ASSERT_EQ(first->status, 200) << path;
    const std::string tag = first->get_header_value("ETag");
    const auto again = http.Get(path, {{"If-None-Match", "\"x\", " + tag}});
    EXPECT_EQ(again->status, 304) << path;
    EXPECT_EQ(again->body, "");
    EXPECT_EQ(again->get_header_value("ETag"), tag);
    EXPECT_EQ(http.Get(path, {{"If-None-Match", "\"x\""}})->body, first->body);
  }
  const std::string before =
      http.Get("/v1/networks/tiny")->get_header_value("ETag");
  const std::string wider =
      std::string(kNetwork) + "conv2,8,8,8,8,3,3,1,1,1,1,1\n";
  ASSERT_EQ(http.Put("/v1/networks/tiny", wider, "text/csv")->status, 200);
  EXPECT_EQ(http.Get("/v1/networks/tiny", {{"If-None-Match", before}})->status,
            200);
  EXPECT_EQ(http.Get("/v1/plans/4711")->get_header_value("ETag"), "");
}

}  // namespace
}  // namespace ucudnn
