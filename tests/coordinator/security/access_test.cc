// Who may make which call of a coordinator, over gRPC, for every role and every
// call of the services.

#include "coordinator/security/access.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/x509v3.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/service/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/metrics.h"
#include "coordinator/rpc/server.h"
#include "coordinator/security/certificate.h"
#include "proto/channel.h"
#include "proto/job_key.h"
#include "tests/support/certificates.h"
#include "ucudnn/v1/agent.grpc.pb.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

// Every call of the services, with the roles that may make it.
const std::map<std::string, std::set<std::string>>& Expected() {
  static const auto* const expected = [] {
    auto* calls = new std::map<std::string, std::set<std::string>>;
    const auto add = [&](const std::set<std::string>& roles,
                         const std::vector<std::string>& names) {
      for (const std::string& name : names) (*calls)[name] = roles;
    };
    add({"agent"}, {"Register", "LeaseTasks", "ReportTask", "ReportDeviceModel",
                    "Heartbeat", "Leave"});
    add({"job"}, {"RegisterJob", "ReportSteps", "AnswerRevision", "FinishJob"});
    add({"job", "operator", "admin"}, {"CreatePlan", "Measure", "PutStep"});
    add({"operator", "admin"}, {"PutNetwork", "ReplanJob", "CancelTasks"});
    add({"agent", "operator", "admin"}, {"HoldAgent"});
    add({"agent", "viewer", "job", "operator", "admin"},
        {"ListAgents", "ListDevices"});
    add({"admin"}, {"PutProfile", "DeleteNetwork", "DeleteStep", "DeletePlan",
                    "DeleteJob", "DeleteAgent", "Prune"});
    add({"viewer", "job", "operator", "admin"},
        {"GetAgent",      "GetDevice",   "ListNetworks",   "GetNetwork",
         "ListProfiles",  "GetProfile",  "GetDeviceModel", "GetProblemProfile",
         "ListCampaigns", "GetCampaign", "ListTasks",      "GetTask",
         "ListActions",   "ListPlans",   "GetPlan",        "GetFront",
         "ListJobs",      "GetJob",      "GetJobRank",     "Allocate",
         "GetStatus",     "ListSteps",   "GetStep"});
    return calls;
  }();
  return *expected;
}

// "/ucudnn.v1.AgentService/Register" and so on.
std::vector<std::string> MethodsOfServices() {
  std::vector<std::string> methods;
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  for (const char* name :
       {"ucudnn.v1.AgentService", "ucudnn.v1.CoordinatorService"}) {
    const auto* service = pool->FindServiceByName(name);
    UCUDNN_CHECK(service != nullptr);
    for (int i = 0; i < service->method_count(); ++i) {
      methods.push_back(
          fmt::format("/{}/{}", name, service->method(i)->name()));
    }
  }
  return methods;
}

class AccessTest : public ::testing::Test {
 protected:
  std::shared_ptr<grpc::Channel> Channel(const CredentialFiles& files) const {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        address(), Access::Open(files, {address()}).value().credentials(), own);
  }

  std::string address() const {
    return fmt::format("127.0.0.1:{}", server_->port());
  }

  // Calls a method with a message; an empty one by default.
  static grpc::Status Call(
      const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
      const std::map<std::string, std::string>& metadata = {},
      const google::protobuf::Message& message = v1::ListRequest()) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    for (const auto& [name, value] : metadata) {
      context.AddMetadata(name, value);
    }
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const grpc::Slice slice(message.SerializeAsString());
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  static grpc::Status GetStatus(const std::shared_ptr<grpc::Channel>& channel,
                                const std::string& token = "") {
    std::map<std::string, std::string> metadata;
    if (!token.empty()) metadata["authorization"] = "Bearer " + token;
    return Call(channel, "/ucudnn.v1.CoordinatorService/GetStatus", metadata);
  }

  static v1::RegisterRequest Registration(const std::string& agent) {
    v1::RegisterRequest request;
    request.set_agent_id(agent);
    v1::Device& device = *request.add_devices();
    device.set_id("GPU-1");
    device.mutable_kind_details()->set_model("H");
    device.mutable_kind_details()->set_units(1);
    device.mutable_kind_details()->set_memory_bytes(1 << 30);
    device.mutable_kind_details()->set_library("cudnn-9");
    device.set_kind(ToString(DeviceKind{"H", 1, 1_GiB, "cudnn-9"}));
    device.set_state("idle");
    return request;
  }

  test::Certificates certificates_;
  const std::unique_ptr<Store> store_ = OpenStore("sqlite::memory:").value();
  SystemClock clock_;
  Coordinator coordinator_{CoordinatorOptions(), *store_, clock_};
  Metrics metrics_;
  const std::unique_ptr<Guard> guard_ =
      Guard::Open(certificates_.guard()).value();
  Dispatcher dispatcher_{coordinator_, metrics_, *guard_};
  std::unique_ptr<RpcServer> server_ =
      RpcServer::Start("127.0.0.1:0", dispatcher_).value();
};

TEST_F(AccessTest, EveryRoleMayMakeItsCallsAndNoOthers) {
  std::map<std::string, std::string> tokens;
  for (const Role role : {Role::kAgent, Role::kJob, Role::kViewer,
                          Role::kOperator, Role::kAdmin}) {
    tokens[std::string(Name(role))] = certificates_.AddToken(role, "me");
  }
  const auto channel = Channel(certificates_.ca());
  ASSERT_TRUE(test::WaitUntil(
      [&] { return GetStatus(channel, tokens["admin"]).ok(); }));
  const std::string key = NewJobKey();
  for (const std::string& method : MethodsOfServices()) {
    const std::string name = method.substr(method.rfind('/') + 1);
    ASSERT_TRUE(Expected().contains(name))
        << "say here and in calls.cc who may call " << name;
    // The field that names the agent or the job is the first.
    v1::GetRequest request;
    if (Expected().at(name).contains("agent")) request.set_id("me");
    if (name.ends_with("Job") || name == "ReportSteps" ||
        name == "AnswerRevision") {
      request.set_id(JobIdOf(key));
    }
    EXPECT_EQ(Call(channel, method, {}, request).error_code(),
              grpc::StatusCode::UNAUTHENTICATED)
        << name;
    for (const auto& [role, token] : tokens) {
      const grpc::Status status =
          Call(channel, method,
               {{"authorization", "Bearer " + token}, {kJobKeyHeader, key}},
               request);
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_EQ(status.error_code() != grpc::StatusCode::PERMISSION_DENIED,
                Expected().at(name).contains(role))
          << role << " calls " << name << ": " << status.error_message();
    }
  }
}

TEST_F(AccessTest, ViewersMayTryWhatAMeasurementWouldTake) {
  const std::string token = certificates_.AddToken(Role::kViewer, "v");
  const auto channel = Channel(certificates_.ca());
  ASSERT_TRUE(test::WaitUntil([&] { return GetStatus(channel, token).ok(); }));
  v1::MeasureRequest request;
  request.set_dry_run(true);
  request.mutable_plan()->set_network("none");
  const auto call = [&] {
    return Call(channel, "/ucudnn.v1.CoordinatorService/Measure",
                {{"authorization", "Bearer " + token}}, request)
        .error_code();
  };
  EXPECT_NE(call(), grpc::StatusCode::PERMISSION_DENIED);
  request.set_dry_run(false);
  EXPECT_EQ(call(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AccessTest, TakesCertificatesOfItsClusterUntilTheyAreRevoked) {
  const CredentialFiles viewer = certificates_.Issue(Role::kViewer, "v");
  const auto channel = Channel(viewer);
  EXPECT_TRUE(GetStatus(channel).ok());
  certificates_.Revoke(viewer);
  grpc::Status status;
  EXPECT_TRUE(test::WaitUntil([&] {
    status = GetStatus(channel);
    return !status.ok();
  }));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("revoked"));
  EXPECT_EQ(GetStatus(Channel(viewer)).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessTest, RefusesExpiredAndForeignCertificatesAndPlaintext) {
  const auto refused = [this](const CredentialFiles& files) {
    return GetStatus(Channel(files)).error_code() ==
           grpc::StatusCode::UNAVAILABLE;
  };
  EXPECT_TRUE(refused(
      certificates_.Issue(Role::kAdmin, "late", std::chrono::seconds(-1))));
  const test::Certificates others("test");  // of the same name
  CredentialFiles foreign = others.Issue(Role::kAdmin, "a");
  EXPECT_TRUE(refused(foreign));  // which does not trust us either
  foreign.ca = certificates_.ca().ca;
  EXPECT_TRUE(refused(foreign));
  EXPECT_TRUE(refused({}));
}

TEST_F(AccessTest, RefusesCertificatesThatExpireDuringAConnection) {
  const auto channel = Channel(
      certificates_.Issue(Role::kViewer, "short", std::chrono::seconds(3)));
  EXPECT_TRUE(GetStatus(channel).ok());
  grpc::Status status;
  EXPECT_TRUE(test::WaitUntil([&] {
    status = GetStatus(channel);
    return !status.ok();
  }));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("expired"));
}

TEST_F(AccessTest, RefusesUnknownAndRevokedTokens) {
  const std::string token = certificates_.AddToken(Role::kViewer, "v");
  const auto channel = Channel(certificates_.ca());
  EXPECT_TRUE(test::WaitUntil([&] { return GetStatus(channel, token).ok(); }));
  EXPECT_EQ(GetStatus(channel, token + "0").error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  certificates_.RevokeTokens();
  EXPECT_TRUE(test::WaitUntil([&] {
    return GetStatus(channel, token).error_code() ==
           grpc::StatusCode::UNAUTHENTICATED;
  }));
}

TEST_F(AccessTest, AgentsHoldTheirOwnNodeAlone) {
  const auto channel = Channel(certificates_.Issue(Role::kAgent, "n1"));
  const auto hold = [&](const std::string& node) {
    v1::HoldAgentRequest request;
    request.set_agent_id(node);
    request.set_what("cordon");
    return Call(channel, "/ucudnn.v1.CoordinatorService/HoldAgent", {},
                request);
  };
  // There is no such node yet.
  EXPECT_EQ(hold("n1").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(hold("n2").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(hold("n10.rack").error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AccessTest, AnAgentsFullAndShortNamesAreOne) {
  const std::string id = "n1.cluster.example";
  const auto agent = Channel(certificates_.Issue(Role::kAgent, "n1"));
  const auto alice = Channel(certificates_.Issue(Role::kOperator, "alice"));
  const grpc::Status own =
      Call(agent, "/ucudnn.v1.AgentService/Register", {}, Registration(id));
  EXPECT_TRUE(own.ok()) << own.error_message();
  v1::HoldAgentRequest request;
  request.set_agent_id(id);
  request.set_what("cordon");
  const std::string method = "/ucudnn.v1.CoordinatorService/HoldAgent";
  EXPECT_TRUE(Call(alice, method, {}, request).ok());
  request.set_what("resume");
  // Still only holds of its own.
  EXPECT_EQ(Call(agent, method, {}, request).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AccessTest, ClientsMayLeaveTheCoordinatorsDomainOut) {
  certificates_.RenewCoordinator({"127.0.0.1", "coord-1.cluster.example"});
  const auto text = ReadFile(certificates_.guard().cert, 1_MiB);
  ASSERT_TRUE(text);
  const X509Ptr certificate = ParseCertificate(*text).value();
  for (const char* host : {"coord-1", "coord-1.cluster.example"}) {
    EXPECT_EQ(X509_check_host(certificate.get(), host, 0, 0, nullptr), 1)
        << host;
  }
  EXPECT_EQ(X509_check_host(certificate.get(), "coord-2", 0, 0, nullptr), 0);
}

TEST_F(AccessTest, AgentsActForThemselvesAndKeepTheirDevices) {
  const auto one = Channel(certificates_.Issue(Role::kAgent, "one"));
  const auto two = Channel(certificates_.Issue(Role::kAgent, "two"));
  const std::string method = "/ucudnn.v1.AgentService/Register";
  const grpc::Status own = Call(one, method, {}, Registration("one"));
  EXPECT_TRUE(own.ok()) << own.error_message();
  const grpc::Status other = Call(one, method, {}, Registration("two"));
  EXPECT_EQ(other.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(other.error_message(), HasSubstr("--id one"));
  // GPU-1 is that of the first while it is online.
  const grpc::Status taken = Call(two, method, {}, Registration("two"));
  EXPECT_EQ(taken.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(taken.error_message(), HasSubstr("agent one"));
}

TEST_F(AccessTest, AgentsEndOnlyHoldsOfTheirOwn) {
  const auto agent = Channel(certificates_.Issue(Role::kAgent, "one"));
  const auto alice = Channel(certificates_.Issue(Role::kOperator, "alice"));
  ASSERT_TRUE(
      Call(agent, "/ucudnn.v1.AgentService/Register", {}, Registration("one"))
          .ok());
  const auto hold = [](const auto& channel, const std::string& what) {
    v1::HoldAgentRequest request;
    request.set_agent_id("one");
    request.set_what(what);
    return Call(channel, "/ucudnn.v1.CoordinatorService/HoldAgent", {},
                request);
  };
  EXPECT_TRUE(hold(agent, "cordon").ok());
  EXPECT_TRUE(hold(agent, "resume").ok());
  EXPECT_TRUE(hold(alice, "drain").ok());
  for (const char* what : {"resume", "cordon"}) {
    const grpc::Status refused = hold(agent, what);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(refused.error_message(),
                HasSubstr("operator alice holds node 'one'"));
  }
  EXPECT_TRUE(hold(alice, "resume").ok());
}

TEST_F(AccessTest, JobsNeedTheirKeys) {
  const auto channel = Channel(certificates_.Issue(Role::kJob, "team"));
  const std::string key = NewJobKey();
  v1::FinishJobRequest request;
  request.set_job_id(JobIdOf(key));
  const std::string method = "/ucudnn.v1.CoordinatorService/FinishJob";
  const auto finish = [&](const std::string& shown) {
    return Call(channel, method, {{kJobKeyHeader, shown}}, request)
        .error_code();
  };
  EXPECT_EQ(finish(key), grpc::StatusCode::NOT_FOUND);  // it was allowed
  EXPECT_EQ(finish(NewJobKey()), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Call(channel, method, {}, request).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(AccessTest, KeepsWhoReallyDidSomething) {
  const auto channel = Channel(certificates_.Issue(Role::kAdmin, "alice"));
  v1::PutNetworkRequest put;
  put.set_name("n");
  put.set_content(
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
      "conv1,3,8,8,8,3,3,1,1,1,1,1\n");
  const grpc::Status done =
      Call(channel, "/ucudnn.v1.CoordinatorService/PutNetwork", {}, put);
  ASSERT_TRUE(done.ok()) << done.error_message();
  v1::DeleteRequest remove;
  remove.set_id("n");
  remove.set_who("bob");
  remove.set_reason("test");
  ASSERT_TRUE(
      Call(channel, "/ucudnn.v1.CoordinatorService/DeleteNetwork", {}, remove)
          .ok());
  const auto actions = coordinator_.upkeep.ListActions({});
  ASSERT_EQ(actions.value().actions_size(), 1);
  EXPECT_EQ(actions->actions(0).who(), "admin alice");
}

TEST_F(AccessTest, ReflectsForAdmins) {
  const std::string method =
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  EXPECT_EQ(Call(Channel(certificates_.Issue(Role::kOperator, "o")), method)
                .error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Call(Channel(certificates_.ca()), method).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  const grpc::Status status =
      Call(Channel(certificates_.Issue(Role::kAdmin, "a")), method);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(AccessTest, ServesANewCertificateWithoutARestart) {
  const CredentialFiles viewer = certificates_.Issue(Role::kViewer, "v");
  EXPECT_TRUE(GetStatus(Channel(viewer)).ok());
  const std::string before = test::FileText(certificates_.guard().cert);
  certificates_.RenewCoordinator();
  ASSERT_NE(test::FileText(certificates_.guard().cert), before);
  const std::string now = test::FileText(certificates_.guard().cert);
  EXPECT_TRUE(test::WaitUntil([&] {
    const auto channel = Channel(viewer);
    grpc::ClientContext context;
    v1::StatusResponse response;
    const auto stub = v1::CoordinatorService::NewStub(channel);
    if (!stub->GetStatus(&context, {}, &response).ok()) return false;
    const auto shown = context.auth_context()->FindPropertyValues(
        GRPC_X509_PEM_CERT_PROPERTY_NAME);
    return !shown.empty() &&
           now == std::string(shown[0].data(), shown[0].size());
  }));
}

}  // namespace
}  // namespace ucudnn
