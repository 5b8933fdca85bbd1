#include "client/dropin/wire/tcp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "client/dropin/wire/on_thread.h"

namespace ucudnn {
namespace {

using std::chrono::steady_clock;

struct Address {
  sockaddr_storage storage = {};
  socklen_t length = 0;
};

tl::unexpected<Error> SystemError(std::string_view what, int error) {
  return Fail(Code::kUnavailable, "{}: {}", what,
              std::generic_category().message(error));
}

Result<std::vector<Address>> Lookup(const Endpoint& endpoint, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(endpoint.host.c_str(),
                                    endpoint.port.c_str(), &hints, &list)) {
    return Fail(Code::kUnavailable, "{}: {}", endpoint.host,
                gai_strerror(error));
  }
  std::vector<Address> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    Address& address = addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
  }
  freeaddrinfo(list);
  return addresses;
}

Result<std::vector<Address>> Resolve(const Endpoint& endpoint,
                                     Deadline deadline) {
  if (auto numeric = Lookup(endpoint, AI_NUMERICHOST)) return numeric;
  return OnThread<std::vector<Address>>(
      deadline, "looking up " + endpoint.host,
      [endpoint] { return Lookup(endpoint, 0); });
}

// Waits until the descriptor is ready for `events` or has failed.
Status Await(int descriptor, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - steady_clock::now());
    if (left.count() <= 0) {
      return Fail(Code::kDeadlineExceeded, "no answer in time");
    }
    pollfd polled = {descriptor, events, 0};
    const int ready =
        poll(&polled, 1,
             static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return SystemError("poll", errno);
  }
}

Result<int> Connect(const Address& address, Deadline deadline) {
  const int descriptor = socket(address.storage.ss_family,
                                SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return SystemError("socket", errno);
  const auto fail = [&](Error error) {
    close(descriptor);
    return tl::unexpected<Error>(std::move(error));
  };
  const int yes = 1;
  (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address.storage),
              address.length) == 0) {
    return descriptor;
  }
  if (errno != EINPROGRESS) return fail(SystemError("connect", errno).value());
  if (Status ready = Await(descriptor, POLLOUT, deadline); !ready) {
    return fail(std::move(ready).error());
  }
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    error = errno;
  }
  if (error != 0) return fail(SystemError("connect", error).value());
  return descriptor;
}

}  // namespace

Result<TcpConnection> TcpConnection::Open(const Endpoint& endpoint,
                                          Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(const auto addresses, Resolve(endpoint, deadline));
  Error last = {Code::kUnavailable, endpoint.host + " has no address"};
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    // Leave time for the other addresses if this one drops packets.
    const auto now = steady_clock::now();
    const auto share =
        (deadline - now) / static_cast<std::int64_t>(addresses.size() - i);
    auto descriptor = Connect(addresses[i], now + share);
    if (descriptor) return TcpConnection(*descriptor);
    last = std::move(descriptor).error();
  }
  return tl::unexpected<Error>(std::move(last));
}

TcpConnection::~TcpConnection() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status TcpConnection::Write(std::string_view text, Deadline deadline) {
  while (!text.empty()) {
    UCUDNN_RETURN_IF_ERROR(Await(descriptor_, POLLOUT, deadline));
    const ssize_t sent =
        send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return SystemError("send", errno);
    }
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Status TcpConnection::Read(std::string* into, Deadline deadline) {
  while (true) {
    UCUDNN_RETURN_IF_ERROR(Await(descriptor_, POLLIN, deadline));
    std::array<char, 65536> bytes;
    const ssize_t got = recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      into->append(bytes.data(), static_cast<std::size_t>(got));
      return {};
    }
    if (got == 0) return Fail(Code::kUnavailable, "the connection was closed");
    if (errno != EAGAIN && errno != EINTR) return SystemError("recv", errno);
  }
}

}  // namespace ucudnn
