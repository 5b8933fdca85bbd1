#include "coordinator/listener.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <iterator>
#include <list>
#include <thread>
#include <utility>

#include "base/service/address.h"
#include "base/service/log.h"

namespace ucudnn {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kPause{50};

std::size_t OpenDescriptors() {
  std::error_code failed;
  const std::filesystem::directory_iterator entries("/proc/self/fd", failed);
  // None is left for the folder.
  if (failed) return ~std::size_t{0};
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

// How many descriptors may be open before connections are closed.
std::size_t MostDescriptors(std::size_t reserved) {
  rlimit files{};
  if (reserved == 0 || getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return ~std::size_t{0};
  }
  const std::size_t limit = files.rlim_cur;
  return limit - std::min(reserved, limit / 2);
}

}  // namespace

class Listener::Sockets {
 public:
  Sockets(std::string address, std::string protocol, std::size_t reserved,
          Take take)
      : address_(std::move(address)),
        protocol_(std::move(protocol)),
        reserved_(reserved),
        take_(std::move(take)) {}

  Status Open() {
    error_code failed;
    for (const std::string& address : ListenAddresses(address_)) {
      const auto [host, port] = SplitEndpoint(address);
      const auto found = tcp::resolver(io_).resolve(
          host, port, tcp::resolver::passive | tcp::resolver::numeric_service,
          failed);
      for (const auto& entry : found) {
        tcp::endpoint at = entry.endpoint();
        if (port_ != 0) at.port(port_);
        failed = OpenAt(at);
      }
      if (!sockets_.empty()) return {};
    }
    return Fail(Code::kUnavailable, "cannot listen on {} for {}: {}", address_,
                protocol_, failed.message());
  }

  void Start() {
    for (tcp::acceptor& socket : sockets_) Accept(socket);
    thread_ = std::jthread([this] { io_.run(); });
  }

  void Stop() {
    io_.stop();
    thread_ = {};
    sockets_.clear();
  }

  int port() const { return port_; }

  Status Accepting() const {
    if (full_ && OpenDescriptors() <= MostDescriptors(reserved_)) full_ = false;
    if (!full_ && !broken_) return {};
    return Fail(Code::kUnavailable, "{} accepts no connections: {}", protocol_,
                full_ ? "too few descriptors are left (LimitNOFILE)"
                      : "its listener ended");
  }

 private:
  error_code OpenAt(const tcp::endpoint& at) {
    try {
      tcp::acceptor socket(io_, at.protocol());
      // Without SO_REUSEPORT, which would let two processes share the port.
      socket.set_option(tcp::acceptor::reuse_address(true));
      // Accepted connections inherit it.
      socket.set_option(tcp::no_delay(true));
      if (at.address().is_v6()) socket.set_option(asio::ip::v6_only(false));
      socket.bind(at);
      socket.listen();
      port_ = socket.local_endpoint().port();
      sockets_.push_back(std::move(socket));
      return {};
    } catch (const boost::system::system_error& failed) {
      return failed.code();
    }
  }

  void Accept(tcp::acceptor& socket) {
    socket.async_accept(
        [this, &socket](error_code failed, tcp::socket connection) {
          using namespace boost::system::errc;  // NOLINT
          if (failed == asio::error::operation_aborted) return;
          if (failed == invalid_argument || failed == bad_file_descriptor ||
              failed == not_a_socket) {
            return Reopen();
          }
          if (failed == too_many_files_open ||
              failed == too_many_files_open_in_system ||
              failed == no_buffer_space || failed == not_enough_memory) {
            SetFull();
            return After(kPause, [this, &socket] { Accept(socket); });
          }
          // Other failures are of connections that ended meanwhile.
          if (!failed) Give(std::move(connection));
          Accept(socket);
        });
  }

  void Give(tcp::socket connection) {
    ++open_;
    if (IsFull()) return SetFull();  // which closes the connection
    full_ = false;
    error_code failed;
    connection.native_non_blocking(true, failed);
    take_(connection.release(failed));
  }

  bool IsFull() {
    const std::size_t most = MostDescriptors(reserved_);
    if (open_ <= most) return false;
    // Connections end without telling. Counting takes as long as there are
    // many.
    const auto now = std::chrono::steady_clock::now();
    if (now - counted_ < kPause) return true;
    open_ = OpenDescriptors();
    counted_ = now;
    return open_ > most;
  }

  void SetFull() {
    if (full_.exchange(true)) return;
    spdlog::warn("event=connections_refused protocol={} why={}", protocol_,
                 Quoted("too few descriptors are left (LimitNOFILE)"));
  }

  void Reopen() {
    constexpr std::chrono::milliseconds kRetry{200};
    if (!broken_.exchange(true)) {
      spdlog::error("event=listener_ended protocol={} port={}", protocol_,
                    port_);
    }
    sockets_.clear();
    if (const Status opened = Open(); !opened) {
      spdlog::error("event=listener_failed error={}",
                    Quoted(opened.error().message));
      return After(kRetry, [this] { Reopen(); });
    }
    broken_ = false;
    for (tcp::acceptor& socket : sockets_) Accept(socket);
  }

  template <class Do>
  void After(std::chrono::milliseconds time, Do next) {
    const auto timer = std::make_shared<asio::steady_timer>(io_, time);
    timer->async_wait([timer, next](error_code failed) {
      if (!failed) next();
    });
  }

  const std::string address_;
  const std::string protocol_;
  const std::size_t reserved_;
  const Take take_;
  asio::io_context io_{1};
  std::list<tcp::acceptor> sockets_;
  unsigned short port_ = 0;
  mutable std::atomic<bool> full_ = false;
  std::atomic<bool> broken_ = false;
  // At most so many descriptors are open: those counted last and the
  // connections since.
  std::size_t open_ = 0;
  std::chrono::steady_clock::time_point counted_;
  std::jthread thread_;
};

Result<std::unique_ptr<Listener>> Listener::Open(const std::string& address,
                                                 const std::string& protocol,
                                                 std::size_t reserved,
                                                 Take take) {
  auto sockets =
      std::make_unique<Sockets>(address, protocol, reserved, std::move(take));
  UCUDNN_RETURN_IF_ERROR(sockets->Open());
  return std::unique_ptr<Listener>(new Listener(std::move(sockets)));
}

Listener::Listener(std::unique_ptr<Sockets> sockets)
    : sockets_(std::move(sockets)) {}
Listener::~Listener() { Stop(); }
void Listener::Start() { sockets_->Start(); }
void Listener::Stop() { sockets_->Stop(); }
int Listener::port() const { return sockets_->port(); }
Status Listener::Accepting() const { return sockets_->Accepting(); }

}  // namespace ucudnn
