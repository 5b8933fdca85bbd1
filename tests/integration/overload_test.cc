// Clients that take all they can get hold nobody else up.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/limits.h"
#include "coordinator/security/openssl.h"
#include "coordinator/security/tls_memory.h"
#include "tests/integration/cluster.h"
#include "tests/support/certificates.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn::test {
namespace {

// A TCP connection to a port of this host.
class Connection {
 public:
  // From 127.0.0.`host`.
  explicit Connection(int port, unsigned host = 1)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) == 0;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(socket_); }

  bool connected() const { return connected_; }
  int descriptor() const { return socket_; }
  bool Send(const std::string& text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // What has arrived; waits for something.
  std::string Receive() const {
    char buffer[4096];
    const ssize_t size = recv(socket_, buffer, sizeof(buffer), 0);
    return {buffer, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }
  // Whether the other side has closed it, by what has arrived.
  bool Ended() const {
    char byte = 0;
    const ssize_t size = recv(socket_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return size == 0 || (size < 0 && errno == ECONNRESET);
  }
  // The same, by sending something too.
  bool Closed() const {
    char byte = 0;
    return recv(socket_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0 || !Send("x");
  }

 private:
  const int socket_;
  bool connected_ = false;
};

// The numbers of a process's threads.
std::set<std::string> ThreadsOf(pid_t process) {
  std::set<std::string> threads;
  for (const auto& thread : std::filesystem::directory_iterator(
           fmt::format("/proc/{}/task", process))) {
    threads.insert(thread.path().filename());
  }
  return threads;
}

using Connections = std::vector<std::unique_ptr<Connection>>;

Connections Open(int count, int port, const std::string& first,
                 unsigned host = 1) {
  Connections connections;
  for (int i = 0; i < count; ++i) {
    connections.push_back(std::make_unique<Connection>(port, host));
    EXPECT_TRUE(connections.back()->connected());
    connections.back()->Send(first);
  }
  return connections;
}

// The status of GET; 0 if nothing comes.
int Get(int port, const std::string& path) {
  httplib::Client http("127.0.0.1", port);
  const auto answer = http.Get(path);
  return answer ? answer->status : 0;
}

bool Answers(int port, const std::string& path) {
  return Get(port, path) == 200;
}

using Stub = std::unique_ptr<v1::CoordinatorService::Stub>;

Stub Connect(const std::string& address) {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::CoordinatorService::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), own));
}

bool Answers(const Stub& stub) {
  grpc::ClientContext context;
  v1::StatusResponse response;
  return stub->GetStatus(&context, {}, &response).ok();
}

class OverloadTest : public ::testing::Test {
 protected:
  OverloadTest() { cluster_.StartCoordinators({"--probes", "127.0.0.1:0"}); }

  int grpc_port() const {
    return std::stoi(
        cluster_.address().substr(cluster_.address().find(':') + 1));
  }

  Cluster cluster_;
};

TEST_F(OverloadTest, AnswersOthersWhileConnectionsDrip) {
  const Connections dripping =
      Open(60, cluster_.http_port(), "GET /v1/status HTTP/1.1\r\nX: ");
  EXPECT_TRUE(Answers(cluster_.http_port(), "/v1/status"));
  // They are closed once the time for their requests is up, though a byte comes
  // now and then.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(WaitUntil([&] {
    return std::ranges::all_of(
        dripping, [](const auto& connection) { return connection->Closed(); });
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            kHttpPatience + std::chrono::seconds(5));
}

TEST_F(OverloadTest, AnswersWhoeverAsksThoughOthersHoldAllPlaces) {
  for (const int port : {cluster_.http_port(), cluster_.probe_port()}) {
    for (const char* first : {"", "GET "}) {
      std::vector<Connections> open;
      for (unsigned host = 1; host <= 3; ++host) {
        open.push_back(
            Open(static_cast<int>(kMaxHttpConnections), port, first, host));
      }
      for (const char* path : {"/livez", "/readyz", "/metrics"}) {
        EXPECT_TRUE(Answers(port, path)) << port << path << first;
      }
    }
  }
  EXPECT_FALSE(Answers(cluster_.probe_port(), "/v1/status"));
}

TEST_F(OverloadTest, ClosesIdleConnectionsWhileManyAreOpen) {
  constexpr int kThird = static_cast<int>(kMaxHttpConnections) / 3;
  std::vector<Connections> open;
  open.push_back(Open(kThird, cluster_.http_port(), ""));
  ASSERT_TRUE(Answers(cluster_.http_port(), "/livez"));
  const auto start = std::chrono::steady_clock::now();
  open.push_back(Open(kThird, cluster_.http_port(), "", 2));
  const auto ended = [&] {
    int count = 0;
    for (const Connections& some : open) {
      for (const auto& connection : some) count += connection->Ended() ? 1 : 0;
    }
    return count;
  };
  constexpr int kTooMany =
      2 * kThird - static_cast<int>(kMaxHttpConnections) / 2;
  EXPECT_TRUE(WaitUntil([&] { return ended() >= kTooMany; }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, kHttpIdle / 3);
}

TEST_F(OverloadTest, KeepsFewThreadsForManyCancelledCalls) {
  const auto stub = v1::CoordinatorService::NewStub(grpc::CreateChannel(
      cluster_.address(), grpc::InsecureChannelCredentials()));
  struct Started {
    grpc::ClientContext context;
    grpc::Status status;
    v1::StatusResponse response;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::StatusResponse>> reader;
  };
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Started>> calls;
  for (int i = 0; i < 5'000; ++i) {
    auto& call = *calls.emplace_back(std::make_unique<Started>());
    call.reader = stub->AsyncGetStatus(&call.context, {}, &queue);
    call.reader->Finish(&call.response, &call.status, &call);
  }
  for (const auto& call : calls) call->context.TryCancel();
  void* tag = nullptr;
  bool ok = false;
  for (std::size_t i = 0; i < calls.size(); ++i) queue.Next(&tag, &ok);
  EXPECT_LT(
      cluster_.coordinator().Threads(),
      static_cast<long>(kMaxShortCalls + kMaxLongCalls + kMaxHeartbeats) + 64);
  grpc::ClientContext context;
  v1::StatusResponse response;
  EXPECT_TRUE(stub->GetStatus(&context, {}, &response).ok());
}

TEST_F(OverloadTest, KeepsThreadsForFurtherCalls) {
  const auto call_often = [&] {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&] {
        const Stub stub = Connect(cluster_.address());
        for (int call = 0; call < 50; ++call) EXPECT_TRUE(Answers(stub));
      });
    }
  };
  call_often();
  const std::set<std::string> before = ThreadsOf(cluster_.coordinator().pid());
  for (int i = 0; i < 5; ++i) call_often();
  const std::set<std::string> after = ThreadsOf(cluster_.coordinator().pid());
  EXPECT_TRUE(std::ranges::includes(after, before));
}

// Connections without end leave descriptors for REST, probes and the database,
// and gRPC accepts again once there are fewer.
TEST_F(OverloadTest, RefusesConnectionsBeforeDescriptorsRunOut) {
  const Stub before = Connect(cluster_.address());
  ASSERT_TRUE(Answers(before));
  constexpr rlimit kFew{.rlim_cur = 400, .rlim_max = 400};
  ASSERT_EQ(prlimit(cluster_.coordinator().pid(), RLIMIT_NOFILE, &kFew,
                    /*old_limit=*/nullptr),
            0);
  {
    const Connections many = Open(600, grpc_port(), "");
    EXPECT_TRUE(WaitUntil([&] {
      return std::ranges::count_if(many, [](const auto& connection) {
               return connection->Ended();
             }) >= 400;
    }));
    EXPECT_TRUE(WaitUntil(
        [&] { return Get(cluster_.probe_port(), "/readyz") == 503; }));
    EXPECT_TRUE(Answers(cluster_.probe_port(), "/livez"));
    EXPECT_TRUE(Answers(cluster_.http_port(), "/v1/status"));
    EXPECT_TRUE(Answers(before));
  }
  EXPECT_TRUE(
      WaitUntil([&] { return Answers(cluster_.probe_port(), "/readyz"); }));
  EXPECT_TRUE(Answers(Connect(cluster_.address())));
  EXPECT_TRUE(Answers(before));
}

TEST(OpenFilesTest, AreAsManyAsTheSystemGrants) {
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &own), 0);
  const rlimit few{.rlim_cur = 128, .rlim_max = own.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Cluster cluster;
  cluster.StartCoordinators();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &own), 0);
  rlimit raised{};
  ASSERT_EQ(prlimit(cluster.coordinator().pid(), RLIMIT_NOFILE,
                    /*new_limit=*/nullptr, &raised),
            0);
  EXPECT_EQ(raised.rlim_cur, own.rlim_max);
}

// The kB in memory of a process's largest mapping.
std::size_t LargestMappingKb(pid_t process) {
  std::ifstream maps(fmt::format("/proc/{}/smaps", process));
  std::pair<std::size_t, std::size_t> largest;
  std::size_t size = 0;
  for (std::string word; maps >> word;) {
    std::size_t kb = 0;
    if (word == "Size:" && maps >> kb) size = kb;
    if (word == "Rss:" && maps >> kb) {
      largest = std::max(largest, std::pair(size, kb));
    }
  }
  return largest.second;
}

// 10,000 agents have a TLS connection each.
TEST(TlsConnectionsTest, TakeLittleMemoryAndMakeNoTickets) {
  constexpr std::size_t kConnections = 200;
  constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  constexpr char kSettings[] = "\0\0\0\4\0\0\0\0";
  const Certificates certificates;
  const GuardFiles files = certificates.guard();
  Cluster cluster("sqlite::memory:");
  cluster.StartCoordinators(
      {"--ca", files.ca, "--cert", files.cert, "--key", files.key});
  const int port =
      std::stoi(cluster.address().substr(cluster.address().find(':') + 1));
  const SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  static int tickets = 0;
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_CLIENT);
  SSL_CTX_sess_set_new_cb(context.get(), [](SSL*, SSL_SESSION*) {
    ++tickets;
    return 0;
  });
  std::vector<std::unique_ptr<Connection>> sockets;
  std::vector<SslPtr> connections;
  for (std::size_t i = 0; i < kConnections; ++i) {
    sockets.push_back(std::make_unique<Connection>(port));
    SSL* const ssl = connections.emplace_back(SSL_new(context.get())).get();
    SSL_set_fd(ssl, sockets.back()->descriptor());
    ASSERT_EQ(SSL_connect(ssl), 1) << OpensslReason();
    const std::string first =
        std::string(kPreface) + std::string(kSettings, sizeof(kSettings));
    ASSERT_GT(SSL_write(ssl, first.data(), static_cast<int>(first.size())), 0);
    // Tickets would come before the server's own settings.
    char byte = 0;
    ASSERT_EQ(SSL_read(ssl, &byte, 1), 1) << OpensslReason();
  }
  EXPECT_EQ(tickets, 0);
  // Of the 34 KiB that OpenSSL keeps for each.
  const std::size_t kb = LargestMappingKb(cluster.coordinator().pid());
  EXPECT_GE(kb, kConnections * 4);
  EXPECT_LE(kb, kConnections * 12);
}

TEST_F(OverloadTest, AnswersAtOnceOverOneConnection) {
  httplib::Client http("127.0.0.1", cluster_.http_port());
  http.set_keep_alive(true);
  // Where small packets wait for acknowledgements, most answers take 40 ms.
  int slow = 0;
  for (int i = 0; i < 100; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(http.Get("/livez"));
    const auto took = std::chrono::steady_clock::now() - start;
    slow += took > std::chrono::milliseconds(35) ? 1 : 0;
  }
  EXPECT_LT(slow, 50);
}

TEST_F(OverloadTest, EndsInTimeWhateverIsOpen) {
  const Connections idle = Open(20, cluster_.http_port(), "");
  const Connections dripping = Open(20, cluster_.http_port(), "GET ");
  const Connections silent = Open(20, grpc_port(), "PRI * HTTP/2.0\r\n");
  ASSERT_TRUE(Answers(cluster_.http_port(), "/livez"));
  EXPECT_EQ(cluster_.StopCoordinators(std::chrono::seconds(10)), 0);
}

}  // namespace
}  // namespace ucudnn::test
