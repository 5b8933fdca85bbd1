#include "coordinator/rpc/server.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/method_handler.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/service/backoff.h"
#include "base/service/call.h"
#include "base/service/log.h"
#include "base/service/rate_limit.h"
#include "coordinator/dispatcher.h"
#include "coordinator/limits.h"
#include "coordinator/rpc/acceptor.h"
#include "coordinator/rpc/answers.h"
#include "coordinator/security/openssl.h"
#include "proto/job_key.h"
#include "proto/status.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// What calls need to know of their server.
struct Calls {
  Dispatcher& dispatcher;
  Answers answers = {};
  std::atomic<bool> stopping = false;
};

std::string HeaderOf(const grpc::ServerContext& context,
                     const std::string& name) {
  const auto found = context.client_metadata().find(name);
  return found == context.client_metadata().end()
             ? ""
             : std::string(found->second.data(), found->second.size());
}

std::string CertificateOf(const grpc::AuthContext* connection) {
  if (connection == nullptr) return "";
  const auto pem =
      connection->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return pem.empty() ? "" : std::string(pem[0].data(), pem[0].size());
}

Peer PeerOf(const grpc::ServerContext& context) {
  // "ipv4:127.0.0.1:5432"; ports differ between calls of one host.
  const std::string peer = context.peer();
  return {.host = peer.substr(0, peer.rfind(':')),
          .certificate = CertificateOf(context.auth_context().get()),
          .authorization = HeaderOf(context, "authorization"),
          .job_key = HeaderOf(context, kJobKeyHeader)};
}

// Reflection answers by itself, so this is asked before; our own calls are
// checked with their requests (Dispatcher).
class ReflectionForAdmins final : public grpc::AuthMetadataProcessor {
 public:
  explicit ReflectionForAdmins(const Guard& guard) : guard_(guard) {}

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* connection,
                       OutputMetadata* /*consumed*/,
                       OutputMetadata* /*response*/) override {
    const auto get = [&](const char* name) {
      const auto found = metadata.find(name);
      return found == metadata.end()
                 ? std::string()
                 : std::string(found->second.data(), found->second.size());
    };
    if (!get(":path").starts_with("/grpc.reflection.")) return {};
    const auto admitted =
        guard_.Admit({.host = "",
                      .certificate = CertificateOf(connection),
                      .authorization = get("authorization")},
                     kReflect, {});
    if (admitted) return {};
    return ToGrpc(tl::unexpected<Error>(admitted.error()));
  }

 private:
  const Guard& guard_;
};

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const Guard& guard) {
  constexpr unsigned kLookForNewFilesSeconds = 1;
  const GuardFiles* files = guard.files();
  if (files == nullptr) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files->key, files->cert, files->ca, kLookForNewFilesSeconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  auto credentials = grpc::experimental::TlsServerCredentials(options);
  credentials->SetAuthMetadataProcessor(
      std::make_shared<ReflectionForAdmins>(guard));
  return credentials;
}

// Fails once the client has ended the call. Asking gRPC for it takes some 30
// us, since it looks at its connections first, so a call does that rarely.
std::function<Status()> StillWanted(const grpc::ServerContext& context) {
  static constexpr std::chrono::milliseconds kAskAgain{1};
  using Clock = std::chrono::steady_clock;
  return [&context, asked = Clock::now()]() mutable -> Status {
    const auto now = Clock::now();
    if (now - asked < kAskAgain &&
        std::chrono::system_clock::now() < context.deadline()) {
      return {};
    }
    asked = now;
    if (!context.IsCancelled()) return {};
    return Fail(Code::kCancelled, "the client ended the call");
  };
}

template <class Service, class Request, class Response>
grpc::Status Answer(Calls& calls, const char* method,
                    Result<Response> (Service::*call)(const Request&),
                    grpc::ServerContext* context, const Request& request,
                    Response* response) {
  const Call scope(StillWanted(*context));
  const Peer peer = PeerOf(*context);
  bool busy = false;
  auto result = calls.dispatcher.Run(peer, method, call, request, &busy);
  if (result) {
    const bool known = calls.dispatcher.guard().files() != nullptr;
    const Status room = calls.answers.BeginWriting(
        context->peer(), known ? peer.certificate + peer.authorization : "");
    if (room) {
      *response = *std::move(result);
      return grpc::Status::OK;
    }
    busy = true;
    result = tl::unexpected<Error>(room.error());
  }
  // Stopping cancels the calls that still run.
  if (result.error().code == Code::kCancelled && calls.stopping) {
    return Stopping();
  }
  if (busy) context->AddTrailingMetadata(kPushbackHeader, "1000");
  return ToGrpc(tl::unexpected<Error>(std::move(result).error()));
}

// gRPC writes a line for each handshake that fails, among others: whoever
// reaches the port could fill the log.
void LogForGrpc(gpr_log_func_args* line) {
  constexpr int kLines = 5;
  constexpr std::int64_t kIntervalMs = 10'000;
  static RateLimit limit(kLines, kIntervalMs);
  const std::string_view path = line->file;
  const std::string at =
      fmt::format("{}:{}", path.substr(path.rfind('/') + 1), line->line);
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
  const auto left_out = limit.Allow(at, now.count());
  if (!left_out) return;
  spdlog::warn("event=grpc_message at={} why={} left_out={}", at,
               Quoted(line->message), *left_out);
}

// Has Answers know of the handler's calls.
class KnownHandler final : public grpc::internal::MethodHandler {
 public:
  KnownHandler(Answers& answers,
               std::unique_ptr<grpc::internal::MethodHandler> handler)
      : answers_(answers), handler_(std::move(handler)) {}

  void RunHandler(const HandlerParameter& call) override {
    const Answers::Call known(answers_, *call.server_context);
    handler_->RunHandler(call);
  }
  void* Deserialize(grpc_call* call, grpc_byte_buffer* request,
                    grpc::Status* status, void** data) override {
    return handler_->Deserialize(call, request, status, data);
  }

 private:
  Answers& answers_;
  const std::unique_ptr<grpc::internal::MethodHandler> handler_;
};

// What both services have in common.
class ServiceImpl : public grpc::Service {
 protected:
  explicit ServiceImpl(Calls& calls) : calls_(calls) {}

  // `path` must live as long as the service.
  template <class Service, class Request, class Response>
  void Add(const char* path, const char* method,
           Result<Response> (Service::*call)(const Request&)) {
    AddHandler<Request, Response>(
        path, [this, method, call](auto*, grpc::ServerContext* context,
                                   const Request* request, Response* response) {
          return Answer(calls_, method, call, context, *request, response);
        });
  }

  template <class Request, class Response, class Handle>
  void AddHandler(const char* path, Handle handle) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        path, grpc::internal::RpcMethod::NORMAL_RPC,
        new KnownHandler(
            calls_.answers,
            std::make_unique<grpc::internal::RpcMethodHandler<
                ServiceImpl, Request, Response>>(std::move(handle), this))));
  }

  Calls& calls_;
};

#define UCUDNN_RPC(Name, Service, Method) \
  Add("/ucudnn.v1." Name "/" #Method, #Method, &Service::Method)

class AgentServiceImpl final : public ServiceImpl {
 public:
  explicit AgentServiceImpl(Calls& calls) : ServiceImpl(calls) {
    UCUDNN_RPC("AgentService", AgentService, Register);
    UCUDNN_RPC("AgentService", MeasuringService, LeaseTasks);
    UCUDNN_RPC("AgentService", MeasuringService, ReportTask);
    UCUDNN_RPC("AgentService", MeasuringService, ReportDeviceModel);
    UCUDNN_RPC("AgentService", AgentService, Heartbeat);
    UCUDNN_RPC("AgentService", AgentService, Leave);
  }
};

// The generated service, but GetPlan sends stored plans without making messages
// of them. The generated classes would leave that method to a generic service,
// and with one of those, gRPC 1.51 serves everything from threads that sleep
// for 100 ms of each 1.1 s.
class CoordinatorServiceImpl final : public ServiceImpl {
 public:
  explicit CoordinatorServiceImpl(Calls& calls) : ServiceImpl(calls) {
    AddPlans();
    UCUDNN_RPC("CoordinatorService", AgentService, ListAgents);
    UCUDNN_RPC("CoordinatorService", AgentService, GetAgent);
    UCUDNN_RPC("CoordinatorService", JobService, HoldAgent);
    UCUDNN_RPC("CoordinatorService", MeasuringService, ListDevices);
    UCUDNN_RPC("CoordinatorService", MeasuringService, GetDevice);
    UCUDNN_RPC("CoordinatorService", NetworkService, PutNetwork);
    UCUDNN_RPC("CoordinatorService", NetworkService, ListNetworks);
    UCUDNN_RPC("CoordinatorService", NetworkService, GetNetwork);
    UCUDNN_RPC("CoordinatorService", UpkeepService, DeleteNetwork);
    UCUDNN_RPC("CoordinatorService", MeasuringService, ListProfiles);
    UCUDNN_RPC("CoordinatorService", MeasuringService, GetProfile);
    UCUDNN_RPC("CoordinatorService", MeasuringService, GetProblemProfile);
    UCUDNN_RPC("CoordinatorService", MeasuringService, GetDeviceModel);
    UCUDNN_RPC("CoordinatorService", MeasuringService, PutProfile);
    UCUDNN_RPC("CoordinatorService", JobService, Measure);
    UCUDNN_RPC("CoordinatorService", MeasuringService, ListCampaigns);
    UCUDNN_RPC("CoordinatorService", MeasuringService, GetCampaign);
    UCUDNN_RPC("CoordinatorService", MeasuringService, ListTasks);
    UCUDNN_RPC("CoordinatorService", MeasuringService, GetTask);
    UCUDNN_RPC("CoordinatorService", MeasuringService, CancelTasks);
    UCUDNN_RPC("CoordinatorService", UpkeepService, ListActions);
    UCUDNN_RPC("CoordinatorService", PlanService, CreatePlan);
    UCUDNN_RPC("CoordinatorService", PlanService, ListPlans);
    UCUDNN_RPC("CoordinatorService", PlanService, DeletePlan);
    UCUDNN_RPC("CoordinatorService", PlanService, GetFront);
    UCUDNN_RPC("CoordinatorService", JobService, ListJobs);
    UCUDNN_RPC("CoordinatorService", JobService, GetJob);
    UCUDNN_RPC("CoordinatorService", JobService, DeleteJob);
    UCUDNN_RPC("CoordinatorService", AgentService, DeleteAgent);
    UCUDNN_RPC("CoordinatorService", JobService, GetJobRank);
    UCUDNN_RPC("CoordinatorService", JobService, RegisterJob);
    UCUDNN_RPC("CoordinatorService", JobService, ReportSteps);
    UCUDNN_RPC("CoordinatorService", JobService, AnswerRevision);
    UCUDNN_RPC("CoordinatorService", JobService, FinishJob);
    UCUDNN_RPC("CoordinatorService", JobService, ReplanJob);
    UCUDNN_RPC("CoordinatorService", UpkeepService, Prune);
    UCUDNN_RPC("CoordinatorService", PlanService, Allocate);
    UCUDNN_RPC("CoordinatorService", UpkeepService, GetStatus);
  }

 private:
  void AddPlans() {
    AddHandler<v1::GetRequest, grpc::ByteBuffer>(
        "/ucudnn.v1.CoordinatorService/GetPlan",
        [this](auto*, grpc::ServerContext* context,
               const v1::GetRequest* request, grpc::ByteBuffer* response) {
          return GetPlan(context, *request, response);
        });
  }

  grpc::Status GetPlan(grpc::ServerContext* context,
                       const v1::GetRequest& request,
                       grpc::ByteBuffer* response) {
    PlanBytes plan;
    const grpc::Status status = Answer(
        calls_, "GetPlan", &PlanService::GetPlanBytes, context, request, &plan);
    if (!status.ok()) return status;
    // The slice holds the bytes until they are sent.
    auto* const held = new PlanBytes(plan);
    const grpc::Slice slice(
        const_cast<char*>(plan->data()), plan->size(),
        [](void* bytes) { delete static_cast<PlanBytes*>(bytes); }, held);
    *response = grpc::ByteBuffer(&slice, 1);
    return status;
  }
};

#undef UCUDNN_RPC

// What a client sees that connects.
enum class Greeting { kNone, kReceived, kNoDescriptor };

// With what a TLS client begins.
std::string TlsHello() {
  const SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  const SslPtr client(SSL_new(context.get()));
  SSL_set_bio(client.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_connect(client.get());  // goes as far as it can
  ERR_clear_error();
  char* data = nullptr;
  const long size = BIO_get_mem_data(SSL_get_wbio(client.get()), &data);
  return {data, static_cast<std::size_t>(size)};
}

// Connects to the address, sends `hello` and awaits the first byte, which a
// gRPC server without TLS sends by itself.
Greeting Greet(const sockaddr_storage& address, const std::string& hello,
               std::chrono::milliseconds patience) {
  const int socket = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return Greeting::kNoDescriptor;
  const timeval limit{.tv_sec = patience.count() / 1000,
                      .tv_usec = patience.count() % 1000 * 1000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  char byte = 0;
  const bool received =
      connect(socket, reinterpret_cast<const sockaddr*>(&address),
              address.ss_family == AF_INET ? sizeof(sockaddr_in)
                                           : sizeof(sockaddr_in6)) == 0 &&
      send(socket, hello.data(), hello.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(hello.size()) &&
      recv(socket, &byte, 1, 0) == 1;
  close(socket);
  return received ? Greeting::kReceived : Greeting::kNone;
}

class GrpcServer final : public RpcServer {
 public:
  GrpcServer(Dispatcher& dispatcher, std::chrono::milliseconds patience)
      : patience_(patience),
        calls_{dispatcher},
        agents_(calls_),
        coordinator_(calls_) {
    if (dispatcher.guard().files() != nullptr) hello_ = TlsHello();
  }
  ~GrpcServer() override { Stop(); }

  Status Listen(const std::string& address) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    UCUDNN_ASSIGN_OR_RETURN(
        acceptor_, Acceptor::Listen(
                       address, [this](int connection) { Take(connection); }));
    UCUDNN_RETURN_IF_ERROR(Build());
    acceptor_->Start();
    ending_ =
        std::jthread([this](const std::stop_token& stop) { EndUnread(stop); });
    for (const sockaddr_storage& own : acceptor_->own_addresses()) {
      own_address_ = own;
      if (Greet(own, hello_, kGreetingPatience) != Greeting::kReceived) {
        continue;
      }
      watching_ =
          std::jthread([this](const std::stop_token& stop) { Watch(stop); });
      return {};
    }
    spdlog::warn("event=grpc_not_watched port={} why={}", port(),
                 Quoted("it cannot be reached from this machine: a listener "
                        "that falls silent is not noticed"));
    return {};
  }

  int port() const override { return acceptor_->port(); }

  Status Accepting() const override {
    const std::size_t held = calls_.answers.running();
    if (held + kLeastFreeRpcThreads > std::size_t{kMaxRpcThreads}) {
      return Fail(Code::kUnavailable,
                  "{} of {} threads of gRPC are held, {} by answers that are "
                  "not read",
                  held, kMaxRpcThreads, calls_.answers.unread());
    }
    if (accepting_) return {};
    return Fail(Code::kUnavailable, "gRPC accepts no connections");
  }

  void SetServing(bool serving) override {
    const std::lock_guard lock(mutex_);
    serving_ = serving;
    if (server_ != nullptr) {
      server_->GetHealthCheckService()->SetServingStatus(serving);
    }
  }

  void Stop() override {
    calls_.stopping = true;
    watching_ = {};
    ending_ = {};
    if (acceptor_ != nullptr) acceptor_->Stop();
    const std::lock_guard lock(mutex_);
    End();
  }

 private:
  // Serves an accepted connection.
  void Take(int connection) {
    const std::lock_guard lock(mutex_);
    if (connections_ == nullptr) {
      close(connection);
      return;
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        accepted;
    accepted.fd = connection;
    connections_->HandleNewConnection(&accepted);
  }

  Status Build() {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    grpc::ResourceQuota quota("coordinator");
    quota.Resize(kMaxRpcBytes);
    quota.SetMaxThreads(kMaxRpcThreads);
    builder.SetResourceQuota(quota);
    // By default gRPC keeps two idle threads: under load, most calls would
    // start a thread and end it.
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS,
                                kMaxIdleRpcThreads);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               kMaxStreamsPerConnection);
    // Clients ping every 10 s during long calls; the default minimum of 5 min
    // would disconnect them.
    builder.AddChannelArgument(
        GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    // Frees the descriptors of clients whose hosts died.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    using Builder = grpc::ServerBuilder::experimental_type;
    auto connections = builder.experimental().AddExternalConnectionAcceptor(
        Builder::ExternalConnectionType::FROM_FD,
        CredentialsOf(calls_.dispatcher.guard()));
    builder.RegisterService(&agents_);
    builder.RegisterService(&coordinator_);
    auto server = builder.BuildAndStart();
    if (server == nullptr) {
      return Fail(Code::kUnavailable, "cannot start gRPC");
    }
    const std::lock_guard lock(mutex_);
    server_ = std::move(server);
    connections_ = std::move(connections);
    server_->GetHealthCheckService()->SetServingStatus(serving_);
    return {};
  }

  // With mutex_ held.
  void End() {
    connections_.reset();
    if (server_ == nullptr) return;
    // Without a deadline, Shutdown waits for every open channel.
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::seconds(1));
    server_->Wait();
    server_.reset();
  }

  void EndUnread(const std::stop_token& stop) {
    const auto look = std::min(patience_ / 4, kUnreadAfter);
    while (!stop.stop_requested()) {
      Pause(stop, look);
      const std::size_t ended = calls_.answers.EndUnread(patience_);
      calls_.dispatcher.metrics().SetRpc(calls_.answers.running(),
                                         calls_.answers.unread(), ended);
      if (ended == 0) continue;
      spdlog::warn("event=unread_answers_ended count={} unread_for_ms={}",
                   ended, patience_.count());
    }
  }

  void Watch(const std::stop_token& stop) {
    int missed = 0;
    while (!stop.stop_requested()) {
      Pause(stop, kGreetingInterval);
      if (stop.stop_requested()) return;
      const Greeting greeting = Greet(own_address_, hello_, kGreetingPatience);
      SetAccepting(greeting == Greeting::kReceived);
      if (acceptor_->broken()) {
        spdlog::error("event=grpc_listener_ended port={}", port());
        if (const Status opened = acceptor_->Reopen(); !opened) {
          spdlog::error("event=grpc_listener_failed error={}",
                        Quoted(opened.error().message));
        }
        continue;
      }
      missed =
          greeting == Greeting::kNone && !acceptor_->full() ? missed + 1 : 0;
      if (missed < kGreetingsMissed) continue;
      missed = 0;
      spdlog::error("event=grpc_server_silent port={}", port());
      {
        const std::lock_guard lock(mutex_);
        End();
      }
      if (const Status built = Build(); !built) {
        spdlog::error("event=grpc_server_failed error={}",
                      Quoted(built.error().message));
        missed = kGreetingsMissed - 1;
      }
    }
  }

  void SetAccepting(bool accepting) {
    if (accepting_ && !accepting && acceptor_->full()) {
      spdlog::warn("event=grpc_connections_refused why={}",
                   Quoted("too few descriptors are left (LimitNOFILE)"));
    }
    accepting_ = accepting;
  }

  const std::chrono::milliseconds patience_;
  Calls calls_;
  AgentServiceImpl agents_;
  CoordinatorServiceImpl coordinator_;
  std::string hello_;               // TlsHello; empty without TLS
  sockaddr_storage own_address_{};  // where Watch greets
  std::atomic<bool> accepting_ = true;
  std::mutex mutex_;
  bool serving_ = false;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<Acceptor> acceptor_;  // calls Take
  std::jthread watching_;
  std::jthread ending_;  // uses Answers
};

}  // namespace

Result<std::unique_ptr<RpcServer>> RpcServer::Start(
    const std::string& address, Dispatcher& dispatcher,
    std::chrono::milliseconds patience) {
  gpr_set_log_function(LogForGrpc);
  auto server = std::make_unique<GrpcServer>(dispatcher, patience);
  UCUDNN_RETURN_IF_ERROR(server->Listen(address));
  return server;
}

}  // namespace ucudnn
