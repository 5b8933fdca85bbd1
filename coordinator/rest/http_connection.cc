#include "coordinator/rest/http_connection.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "coordinator/limits.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// How often a waiting connection looks whether the server stops.
constexpr milliseconds kSlice{100};
// How long an answer may still take when the server stops.
constexpr milliseconds kLastWords{2'000};

// Whether the socket has one of the events within `time`.
bool Poll(socket_t socket, short events, milliseconds time) {
  pollfd waiting{.fd = socket, .events = events, .revents = 0};
  return poll(&waiting, 1, static_cast<int>(time.count())) > 0;
}

}  // namespace

bool HttpConnection::AwaitRequest(const std::function<bool()>& keep) {
  Enter(Phase::kIdle);
  if (broken_) return false;
  const bool first = !std::exchange(served_, true);
  if (begin_ < end_) return true;
  const auto limit = SteadyClock::now() + kHttpIdle;
  while (!stopping_() && (first || keep()) && SteadyClock::now() < limit) {
    if (Poll(socket_, POLLIN, kSlice)) return true;
  }
  return false;
}

void HttpConnection::Enter(Phase phase) {
  if (phase_ == phase) return;
  phase_ = phase;
  started_ = SteadyClock::now();
  moved_ = 0;
  in_head_ = 0;
}

bool HttpConnection::Await(short events) {
  while (true) {
    const auto took = SteadyClock::now() - started_;
    const milliseconds more(moved_ * 1000 >> 20U);
    if (took > kHttpPatience + more) return false;
    if (stopping_() && (phase_ != Phase::kWriting || took > kLastWords)) {
      return false;
    }
    if (Poll(socket_, events, kSlice)) return true;
  }
}

bool HttpConnection::Fill() {
  ssize_t count = -1;
  while (Await(POLLIN)) {
    count = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count >= 0 || (errno != EINTR && errno != EAGAIN)) break;
  }
  broken_ = count <= 0;
  if (broken_) return false;
  begin_ = 0;
  end_ = static_cast<std::size_t>(count);
  return true;
}

ssize_t HttpConnection::read(char* to, size_t size) {
  Enter(Phase::kReading);
  if (begin_ == end_ && !Fill()) return -1;
  const std::size_t count = std::min(size, end_ - begin_);
  broken_ = size == 1 && ++in_head_ > kMaxHttpHeadBytes;
  if (broken_) return -1;
  std::memcpy(to, buffer_.data() + begin_, count);
  begin_ += count;
  moved_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t HttpConnection::write(const char* from, size_t size) {
  Enter(Phase::kWriting);
  ssize_t count = -1;
  while (Await(POLLOUT)) {
    count = send(socket_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0 || (errno != EINTR && errno != EAGAIN)) break;
  }
  broken_ = broken_ || count <= 0;
  if (count > 0) moved_ += static_cast<std::size_t>(count);
  return count;
}

void HttpConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto* peer = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  if (getpeername(socket_, peer, &size) == 0 &&
      getnameinfo(peer, size, host.data(), host.size(), nullptr, 0,
                  NI_NUMERICHOST) == 0) {
    ip = host.data();
  }
}

void HttpConnection::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace ucudnn
