#include "coordinator/rest/http_connection.h"

#include <fcntl.h>
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

HttpConnection::HttpConnection(socket_t socket, HttpPlaces& places,
                               std::function<bool()> stopping, SSL_CTX* tls)
    : socket_(socket),
      tls_(tls == nullptr ? nullptr : SSL_new(tls)),
      places_(places),
      stopping_(std::move(stopping)) {
  if (tls_ == nullptr) return;
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  SSL_set_fd(tls_.get(), socket_);
  SSL_set_accept_state(tls_.get());
}

bool HttpConnection::AwaitHead() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  head_.clear();
  read_ = 0;
  if (broken_) return false;
  Enter(Phase::kIdle);
  if (tls_ != nullptr && !std::exchange(shaken_, true)) {
    if (!Await(POLLIN) || !Shake()) return false;
    Enter(Phase::kIdle);
  }
  while (head_.size() <= kMaxHttpHeadBytes) {
    if (begin_ == end_ && !Fill()) return false;
    Enter(Phase::kHead);
    const std::size_t searched = head_.size() - std::min(head_.size(), 3UL);
    head_.append(buffer_.data() + begin_, end_ - begin_);
    begin_ = end_;
    const std::size_t end = head_.find(kEnd, searched);
    if (end == std::string::npos) continue;
    begin_ -= head_.size() - (end + kEnd.size());
    head_.resize(end + kEnd.size());
    break;
  }
  return true;
}

bool HttpConnection::Shake() {
  Enter(Phase::kHead);
  broken_ = Move(POLLIN, [this] { return SSL_do_handshake(tls_.get()); }) != 1;
  if (broken_) return false;
  const X509Ptr peer(SSL_get1_peer_certificate(tls_.get()));
  if (peer == nullptr) return true;
  const BioPtr pem(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(pem.get(), peer.get());
  certificate_ = TextOf(pem);
  return true;
}

void HttpConnection::Close() {
  if (tls_ != nullptr && !broken_) SSL_shutdown(tls_.get());
  ERR_clear_error();
}

void HttpConnection::Enter(Phase phase) {
  if (phase_ == phase) return;
  phase_ = phase;
  started_ = SteadyClock::now();
  moved_ = 0;
}

milliseconds HttpConnection::Patience() const {
  if (phase_ == Phase::kReading || phase_ == Phase::kWriting) {
    return kHttpPatience + milliseconds(moved_ * 1000 >> 20U);
  }
  if (places_.crowded()) return kHttpCrowded;
  return phase_ == Phase::kIdle ? kHttpIdle : kHttpPatience;
}

bool HttpConnection::Await(short events) {
  using Waits = HttpPlaces::Waits;
  const bool for_head = phase_ == Phase::kIdle || phase_ == Phase::kHead;
  places_.Set(socket_, for_head ? Waits::kForHead : Waits::kForClient,
              started_);
  bool ready = false;
  while (!ready) {
    const auto took = SteadyClock::now() - started_;
    if (took > Patience()) break;
    if (stopping_() && (phase_ != Phase::kWriting || took > kLastWords)) break;
    ready = Poll(socket_, events, kSlice);
  }
  places_.Set(socket_, Waits::kNot, started_);
  return ready;
}

ssize_t HttpConnection::Move(short events,
                             const std::function<ssize_t()>& move) {
  // TLS may hold something received already, and tells what it waits for.
  bool ready = tls_ != nullptr;
  while (std::exchange(ready, false) || Await(events)) {
    ERR_clear_error();
    const ssize_t count = move();
    if (count > 0) return count;
    if (tls_ == nullptr) {
      if (count == 0 || (errno != EINTR && errno != EAGAIN)) return count;
      continue;
    }
    switch (SSL_get_error(tls_.get(), static_cast<int>(count))) {
      case SSL_ERROR_WANT_READ:
        events = POLLIN;
        break;
      case SSL_ERROR_WANT_WRITE:
        events = POLLOUT;
        break;
      default:
        return -1;
    }
  }
  return -1;
}

bool HttpConnection::Fill() {
  const ssize_t count = Move(POLLIN, [this]() -> ssize_t {
    if (tls_ == nullptr) {
      return recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    }
    return SSL_read(tls_.get(), buffer_.data(),
                    static_cast<int>(buffer_.size()));
  });
  broken_ = count <= 0;
  if (broken_) return false;
  begin_ = 0;
  end_ = static_cast<std::size_t>(count);
  return true;
}

ssize_t HttpConnection::read(char* to, size_t size) {
  if (read_ < head_.size()) {
    const std::size_t count = head_.copy(to, size, read_);
    read_ += count;
    return static_cast<ssize_t>(count);
  }
  Enter(Phase::kReading);
  if (begin_ == end_ && !Fill()) return -1;
  const std::size_t count = std::min(size, end_ - begin_);
  std::memcpy(to, buffer_.data() + begin_, count);
  begin_ += count;
  moved_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t HttpConnection::write(const char* from, size_t size) {
  Enter(Phase::kWriting);
  const ssize_t count = Move(POLLOUT, [&]() -> ssize_t {
    if (tls_ == nullptr) {
      return send(socket_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    constexpr std::size_t kMost = std::size_t{1} << 30U;
    return SSL_write(tls_.get(), from, static_cast<int>(std::min(size, kMost)));
  });
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
