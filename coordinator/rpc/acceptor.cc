#include "coordinator/rpc/acceptor.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/service/address.h"
#include "coordinator/limits.h"

namespace ucudnn {
namespace {

constexpr std::chrono::milliseconds kPause{50};

std::size_t OpenDescriptors() {
  std::error_code failed;
  const std::filesystem::directory_iterator entries("/proc/self/fd", failed);
  // None is left for the folder.
  if (failed) return ~std::size_t{0};
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

// How many descriptors may be open before connections are closed.
std::size_t MostDescriptors() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return ~std::size_t{0};
  const std::size_t limit = files.rlim_cur;
  return limit - std::min(kReservedDescriptors, limit / 2);
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<Addresses> Resolve(const std::string& address) {
  const auto [host, port] = SplitEndpoint(address);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (failed != 0) {
    return Fail(Code::kUnavailable, "cannot listen on {} for gRPC: {}", address,
                gai_strerror(failed));
  }
  return Addresses(found, freeaddrinfo);
}

void SetPort(sockaddr* address, int port) {
  // The port lies at the same place for IPv4 and IPv6.
  reinterpret_cast<sockaddr_in*>(address)->sin_port =
      htons(static_cast<std::uint16_t>(port));
}

sockaddr_storage AddressOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

int PortOf(int socket) {
  const sockaddr_storage address = AddressOf(socket);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// A listening socket; -1 and errno if there is none.
int ListenAt(const addrinfo& at) {
  const int socket =
      ::socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const int yes = 1;
  const int no = 0;
  // Without SO_REUSEPORT, which would let two processes share the port.
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (at.ai_family == AF_INET6) {
    setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  if (bind(socket, at.ai_addr, at.ai_addrlen) == 0 &&
      listen(socket, SOMAXCONN) == 0) {
    return socket;
  }
  const int why = errno;
  close(socket);
  errno = why;
  return -1;
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& address,
                                                   Take take) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(address, std::move(take)));
  UCUDNN_RETURN_IF_ERROR(acceptor->Open());
  return acceptor;
}

Acceptor::Acceptor(std::string address, Take take)
    : address_(std::move(address)),
      take_(std::move(take)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Acceptor::~Acceptor() {
  Stop();
  close(stop_);
}

Status Acceptor::Reopen() {
  Stop();
  UCUDNN_RETURN_IF_ERROR(Open());
  Start();
  return {};
}

std::vector<sockaddr_storage> Acceptor::own_addresses() const {
  std::vector<sockaddr_storage> own;
  for (const int socket : sockets_) {
    sockaddr_storage address = AddressOf(socket);
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    if (address.ss_family == AF_INET && v4.sin_addr.s_addr == INADDR_ANY) {
      v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    if (address.ss_family == AF_INET6 &&
        IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) {
      v6.sin6_addr = in6addr_loopback;
      own.push_back(address);
      // ::ffff:127.0.0.1, where loopback has no address of IPv6.
      inet_pton(AF_INET6, "::ffff:127.0.0.1", &v6.sin6_addr);
    }
    own.push_back(address);
  }
  return own;
}

Status Acceptor::Open() {
  int why = 0;
  for (const std::string& address : ListenAddresses(address_)) {
    UCUDNN_ASSIGN_OR_RETURN(const Addresses found, Resolve(address));
    for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
      if (port_ != 0) SetPort(at->ai_addr, port_);
      const int socket = ListenAt(*at);
      if (socket < 0) {
        why = errno;
        continue;
      }
      sockets_.push_back(socket);
      port_ = PortOf(socket);
    }
    if (!sockets_.empty()) return {};
  }
  return Fail(Code::kUnavailable, "cannot listen on {} for gRPC: {}", address_,
              std::strerror(why));
}

void Acceptor::Start() {
  broken_ = false;
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    eventfd_write(stop_, 1);
    thread_.join();
    eventfd_t ignored = 0;
    eventfd_read(stop_, &ignored);
  }
  for (const int socket : sockets_) close(socket);
  sockets_.clear();
}

void Acceptor::Run() {
  std::vector<pollfd> waiting = {{stop_, POLLIN, 0}};
  for (const int socket : sockets_) waiting.push_back({socket, POLLIN, 0});
  while (poll(waiting.data(), waiting.size(), -1) >= 0 || errno == EINTR) {
    if (waiting[0].revents != 0) return;
    for (std::size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      if (AcceptAll(waiting[i].fd)) continue;
      broken_ = true;
      return;
    }
  }
  broken_ = true;
}

bool Acceptor::AcceptAll(int socket) {
  while (true) {
    const int connection =
        accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection >= 0) {
      ++open_;
      full_ = IsFull();
      if (full_) {
        close(connection);
      } else {
        take_(connection);
      }
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return true;
      case EBADF:
      case EINVAL:
      case ENOTSOCK:
        return false;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM: {
        full_ = true;
        pollfd stopped{stop_, POLLIN, 0};
        poll(&stopped, 1, static_cast<int>(kPause.count()));
        return true;
      }
      default:  // of a connection that ended meanwhile
        break;
    }
  }
}

bool Acceptor::IsFull() {
  const std::size_t most = MostDescriptors();
  if (open_ <= most) return false;
  // Connections end without telling. Counting takes as long as there are many.
  const auto now = std::chrono::steady_clock::now();
  if (now - counted_ < kPause) return true;
  open_ = OpenDescriptors();
  counted_ = now;
  return open_ > most;
}

}  // namespace ucudnn
