#include "client/dropin/wire/tcp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

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

Result<std::vector<Address>> Lookup(const std::string& host,
                                    const std::string& port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  if (const int error =
          getaddrinfo(host.c_str(), port.c_str(), &hints, &list)) {
    return Fail(Code::kUnavailable, "{}: {}", host, gai_strerror(error));
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

// Starts a detached thread that blocks all signals, which are the program's.
template <class Work>
void Detach(Work work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(std::move(work)).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Result<std::vector<Address>> Resolve(const std::string& host,
                                     const std::string& port,
                                     Deadline deadline) {
  if (auto numeric = Lookup(host, port, AI_NUMERICHOST)) return numeric;
  struct PendingLookup {
    std::mutex mutex;
    std::condition_variable given;
    std::optional<Result<std::vector<Address>>> addresses;
  };
  const auto answer = std::make_shared<PendingLookup>();
  try {
    Detach([answer, host, port] {
      auto addresses = Lookup(host, port, 0);
      const std::lock_guard lock(answer->mutex);
      answer->addresses = std::move(addresses);
      answer->given.notify_one();
    });
  } catch (const std::system_error& error) {
    return Fail(Code::kUnavailable, "cannot start a thread to look up {}: {}",
                host, error.what());
  }
  std::unique_lock lock(answer->mutex);
  if (!answer->given.wait_until(
          lock, deadline, [&] { return answer->addresses.has_value(); })) {
    return Fail(Code::kDeadlineExceeded, "looking up {} takes too long", host);
  }
  return *std::move(answer->addresses);
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

Result<TcpConnection> TcpConnection::Open(std::string_view endpoint,
                                          Deadline deadline) {
  const std::size_t colon = endpoint.rfind(':');
  std::string host(endpoint.substr(0, colon));
  const std::string port(endpoint.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto addresses, Resolve(host, port, deadline));
  Error last = {Code::kUnavailable, host + " has no address"};
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
