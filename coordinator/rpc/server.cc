#include "coordinator/rpc/server.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/async_unary_call.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/service/backoff.h"
#include "base/service/log.h"
#include "base/service/rate_limit.h"
#include "coordinator/dispatcher.h"
#include "coordinator/limits.h"
#include "coordinator/listener.h"
#include "coordinator/rpc/unread.h"
#include "coordinator/security/guard.h"
#include "proto/job_key.h"
#include "proto/status.h"

namespace ucudnn {
namespace {

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
    const auto who = guard_.Identify({.host = "",
                                      .certificate = CertificateOf(connection),
                                      .authorization = get("authorization")});
    if (!who) return ToGrpc(tl::unexpected<Error>(who.error()));
    return *who ? ToGrpc(CheckRole(**who, "reflection", kReflect))
                : grpc::Status::OK;
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

// What a completion queue returns: what to do next.
using Tag = std::function<void(bool ok)>;

// One of our services, by its methods' names.
class Service final : public grpc::Service {
 public:
  explicit Service(const std::string& name) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            name);
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string& method = service->method(i)->name();
      paths_.push_back(fmt::format("/{}/{}", name, method));
      calls_.push_back(FindCall(method));
      UCUDNN_CHECK(calls_.back() != nullptr);
      AddMethod(new grpc::internal::RpcServiceMethod(
          paths_.back().c_str(), grpc::internal::RpcMethod::NORMAL_RPC,
          /*handler=*/nullptr));
      MarkMethodRaw(i);
    }
  }

  int size() const { return static_cast<int>(calls_.size()); }
  const CallSpec& call(int method) const {
    return *calls_[static_cast<std::size_t>(method)];
  }

  // Has `arrived` called with the method's next request.
  void Await(int method, grpc::ServerContext* context,
             grpc::ByteBuffer* request,
             grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer,
             grpc::ServerCompletionQueue* queue, Tag* arrived) {
    RequestAsyncUnary(method, context, request, writer, queue, queue, arrived);
  }

 private:
  std::deque<std::string> paths_;  // gRPC keeps pointers to them
  std::vector<const CallSpec*> calls_;
};

Result<grpc::ByteBuffer> BytesOf(const Answer& answer) {
  if (answer.bytes == nullptr) {
    grpc::ByteBuffer bytes;
    bool own = false;
    const grpc::Status written =
        grpc::GenericSerialize<grpc::ProtoBufferWriter,
                               google::protobuf::Message>(*answer.message,
                                                          &bytes, &own);
    if (!written.ok()) return tl::unexpected<Error>(FromGrpc(written).error());
    return bytes;
  }
  // The slice holds the bytes until they are sent.
  auto* const held = new std::shared_ptr<const std::string>(answer.bytes);
  const grpc::Slice slice(
      const_cast<char*>(answer.bytes->data()), answer.bytes->size(),
      [](void* bytes) {
        delete static_cast<std::shared_ptr<const std::string>*>(bytes);
      },
      held);
  return grpc::ByteBuffer(&slice, 1);
}

// What calls need to know of their server.
struct Calls {
  explicit Calls(Dispatcher& its_dispatcher) : dispatcher(its_dispatcher) {}

  void Add() {
    const std::lock_guard lock(mutex);
    ++count;
  }
  void Remove() {
    const std::lock_guard lock(mutex);
    if (--count == 0) none.notify_all();
  }
  void AwaitNone() {
    std::unique_lock lock(mutex);
    none.wait(lock, [this] { return count == 0; });
  }

  Dispatcher& dispatcher;
  std::unique_ptr<grpc::ServerCompletionQueue> queue = nullptr;
  Unread unread{kMaxUnreadBytes};
  std::atomic<bool> stopping = false;
  std::mutex mutex = {};
  std::condition_variable none = {};
  std::size_t count = 0;
};

// A call of a method: awaits it, has it answered, and deletes itself once its
// answer is sent or the server stops. None of this takes a thread for longer
// than a moment.
class RpcCall {
 public:
  static void Await(Calls& calls, Service& service, int method) {
    auto* call = new RpcCall(calls, service, method);
    call->context_.AsyncNotifyWhenDone(&call->done_);
    service.Await(method, &call->context_, &call->request_, &call->writer_,
                  calls.queue.get(), &call->arrived_);
  }

 private:
  RpcCall(Calls& calls, Service& service, int method)
      : calls_(calls), service_(service), method_(method) {
    calls_.Add();
  }
  ~RpcCall() { calls_.Remove(); }

  void Arrived(bool ok) {
    if (!ok) {  // the server stops, and will not tell that it is done
      delete this;
      return;
    }
    Await(calls_, service_, method_);
    calls_.dispatcher.Start(
        {.call = service_.call(method_),
         .peer = PeerOf(context_),
         .read = [this] { return Read(); },
         .wanted = [this] { return !cancelled_; },
         .answer = [this](Result<Answer> answer,
                          bool busy) { Finish(std::move(answer), busy); }});
  }

  Result<std::unique_ptr<google::protobuf::Message>> Read() {
    auto message = service_.call(method_).new_request();
    bool parsed = false;
    {
      grpc::ProtoBufferReader reader(&request_);
      parsed =
          reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
    }
    request_.Clear();
    if (parsed) return message;
    return Fail(Code::kInvalidArgument, "the request is not a {}",
                message->GetTypeName());
  }

  void Finish(Result<Answer> answer, bool busy) {
    Result<grpc::ByteBuffer> bytes =
        answer ? BytesOf(*answer)
               : tl::unexpected<Error>(std::move(answer).error());
    if (bytes) {
      unread_ =
          calls_.unread.Add(context_.peer(), bytes->Length() + kRpcCallBytes,
                            [this] { context_.TryCancel(); });
      writer_.Finish(*bytes, grpc::Status::OK, &sent_);
      return;
    }
    if (busy) context_.AddTrailingMetadata(kPushbackHeader, "1000");
    // Stopping cancels the calls that still run.
    const bool stopped =
        bytes.error().code == Code::kCancelled && calls_.stopping;
    writer_.FinishWithError(
        stopped ? Stopping()
                : ToGrpc(tl::unexpected<Error>(std::move(bytes).error())),
        &sent_);
  }

  // The call has ended, for the client or for us.
  void Done(bool /*ok*/) {
    if (context_.IsCancelled()) {
      cancelled_ = true;
      calls_.dispatcher.EndUnwanted();
    }
    Leave();
  }
  void Sent(bool /*ok*/) {
    if (unread_) calls_.unread.Remove(*unread_);
    Leave();
  }
  // At the second of both.
  void Leave() {
    if (left_.exchange(true)) delete this;
  }

  Calls& calls_;
  Service& service_;
  const int method_;
  Tag arrived_ = [this](bool ok) { Arrived(ok); };
  Tag done_ = [this](bool ok) { Done(ok); };
  Tag sent_ = [this](bool ok) { Sent(ok); };
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_{&context_};
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> left_ = false;
  std::optional<Unread::Place> unread_;
};

class GrpcServer final : public RpcServer {
 public:
  GrpcServer(Dispatcher& dispatcher, std::chrono::milliseconds patience)
      : patience_(patience), calls_(dispatcher) {}
  ~GrpcServer() override { Stop(); }

  Status Listen(const std::string& address) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    UCUDNN_ASSIGN_OR_RETURN(
        listener_,
        Listener::Open(address, "gRPC", kReservedDescriptors,
                       [this](int connection) { Take(connection); }));
    UCUDNN_RETURN_IF_ERROR(Build());
    for (Service& service : services_) {
      for (int i = 0; i < service.size(); ++i) {
        RpcCall::Await(calls_, service, i);
      }
    }
    for (int i = 0; i < kRpcThreads; ++i) {
      threads_.emplace_back([this] { Serve(); });
    }
    ending_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        Pause(stop, std::min(patience_ / 4, kUnreadAfter));
        EndUnread();
      }
    });
    listener_->Start();
    return {};
  }

  int port() const override { return listener_->port(); }
  Status Accepting() const override { return listener_->Accepting(); }
  void SetServing(bool serving) override {
    server_->GetHealthCheckService()->SetServingStatus(serving);
  }

  void Stop() override {
    if (listener_ != nullptr) listener_->Stop();
    if (server_ == nullptr || calls_.stopping.exchange(true)) return;
    // Without a deadline, Shutdown waits for every open channel.
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::seconds(1));
    calls_.AwaitNone();
    server_->Wait();
    calls_.queue->Shutdown();
    threads_.clear();
    ending_ = {};
  }

 private:
  Status Build() {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    grpc::ResourceQuota quota("coordinator");
    quota.Resize(kMaxRpcBytes);
    // Only reflection holds threads of gRPC's own.
    quota.SetMaxThreads(kMaxReflectionThreads);
    builder.SetResourceQuota(quota);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               kMaxStreamsPerConnection);
    // Clients ping every 10 s during long calls; the default minimum of 5 min
    // would disconnect them.
    builder.AddChannelArgument(
        GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    // Frees the descriptors of clients whose hosts died.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    builder.AddChannelArgument(GRPC_ARG_TSI_MAX_FRAME_SIZE, kTlsRecordBytes);
    using Builder = grpc::ServerBuilder::experimental_type;
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        Builder::ExternalConnectionType::FROM_FD,
        CredentialsOf(calls_.dispatcher.guard()));
    for (Service& service : services_) builder.RegisterService(&service);
    calls_.queue = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return Fail(Code::kUnavailable, "cannot start gRPC");
    }
    server_->GetHealthCheckService()->SetServingStatus(false);
    return {};
  }

  // Serves an accepted connection.
  void Take(int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        accepted;
    accepted.fd = connection;
    connections_->HandleNewConnection(&accepted);
  }

  void EndUnread() {
    const auto [unread, ended] =
        calls_.unread.EndOverdue(patience_, kUnreadAfter);
    calls_.dispatcher.metrics().SetUnread(unread, ended);
    if (ended == 0) return;
    spdlog::warn("event=unread_answers_ended count={} patience_ms={}", ended,
                 patience_.count());
  }

  void Serve() {
    void* tag = nullptr;
    bool ok = false;
    while (calls_.queue->Next(&tag, &ok)) (*static_cast<Tag*>(tag))(ok);
  }

  const std::chrono::milliseconds patience_;
  Calls calls_;
  std::array<Service, 2> services_ = {Service("ucudnn.v1.AgentService"),
                                      Service("ucudnn.v1.CoordinatorService")};
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;  // calls Take
  std::vector<std::jthread> threads_;
  std::jthread ending_;
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
