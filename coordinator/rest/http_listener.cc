#include "coordinator/rest/http_listener.h"

#include <fmt/ranges.h>
#include <httplib.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <regex>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "coordinator/limits.h"
#include "coordinator/rest/http_connection.h"
#include "coordinator/rest/problem.h"
#include "coordinator/security/guard.h"

namespace ucudnn {
namespace {

// The answer to a connection too many, which no handler sees.
const std::string& TooMany() {
  static const std::string answer = [] {
    const std::string body = ProblemText(
        {Code::kUnavailable, "all HTTP connections are in use"}, 503);
    return fmt::format(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
        "Content-Type: {}\r\nConnection: close\r\n"
        "Content-Length: {}\r\n\r\n{}",
        kProblemType, body.size(), body);
  }();
  return answer;
}

// Set while this thread answers TooMany().
thread_local bool refusing = false;
// Set if the request that this thread answers was not read to its end.
thread_local bool unread = false;
// Of the client whom this thread answers.
thread_local std::string client_certificate;

// A thread for each connection, up to a number; the listening thread refuses
// those on top.
class ConnectionThreads final : public httplib::ThreadPool {
 public:
  ConnectionThreads(std::size_t max, std::atomic<std::size_t>* open)
      : ThreadPool(max), max_(max), open_(*open) {}

  void enqueue(std::function<void()> serve) override {
    if (open_ >= max_) {
      refusing = true;
      serve();
      refusing = false;
      return;
    }
    ++open_;
    ThreadPool::enqueue([this, serve = std::move(serve)] {
      serve();
      --open_;
    });
  }

 private:
  const std::size_t max_;
  std::atomic<std::size_t>& open_;
};

}  // namespace

// httplib's server over our connections.
class HttpListener::Server final : public httplib::Server {
 public:
  Server(std::size_t max_connections, const Guard& guard)
      : max_(max_connections), guard_(guard) {
    new_task_queue = [this] { return new ConnectionThreads(max_, &open_); };
    set_payload_max_length(std::size_t{kMaxRequestBytes});
    set_keep_alive_max_count(1000);
    // Without SO_REUSEPORT, which would let two processes share the port.
    set_socket_options([](int socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    set_pre_routing_handler([](const auto& request, auto& response) {
      if (!request.has_header("Range")) return HandlerResponse::Unhandled;
      ReplyError(
          {Code::kInvalidArgument,
           "the header Range is given; requests without it are accepted"},
          &response);
      return HandlerResponse::Handled;
    });
    set_exception_handler([](const auto& request, auto& response,
                             const std::exception_ptr& thrown) {
      std::string what = "unknown";
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& error) {
        what = error.what();
      } catch (...) {
      }
      spdlog::error("event=http_request_failed method={} error={}",
                    request.method, Excerpt(what, 200));
      ReplyError({Code::kInternal, "the request could not be answered"},
                 &response);
    });
    set_error_handler([this](const auto& request, auto& response) {
      if (response.body.empty()) ReplyRefusal(request, &response);
    });
  }

  // Accepts connections until it is stopped or cannot. httplib lets five wait,
  // and the system holds up those on top for seconds.
  bool Accept() {
    return ::listen(svr_sock_, SOMAXCONN) == 0 && listen_after_bind();
  }

  void Route(const std::string& method, const std::string& pattern,
             const HttpListener::Handler& handler, std::size_t max_body) {
    routes_.push_back({method, pattern, std::regex(pattern)});
    if (method == "GET" || method == "DELETE") {
      const auto answer = [handler](const auto& request, auto& response) {
        handler(request, &response);
      };
      method == "GET" ? Get(pattern, answer) : Delete(pattern, answer);
      return;
    }
    const auto read = [handler, max_body](
                          const httplib::Request& request,
                          httplib::Response& response,
                          const httplib::ContentReader& content) {
      ReadBody(handler, max_body, request, content, &response);
    };
    method == "PUT" ? Put(pattern, read) : Post(pattern, read);
  }

  std::vector<HttpRoute> routes() const {
    std::vector<HttpRoute> all;
    for (const Known& route : routes_) {
      all.push_back({route.method, route.pattern});
    }
    return all;
  }

 private:
  struct Known {
    std::string method;
    std::string pattern;
    std::regex path;
  };

  // httplib hands out the body itself only where it accepts the content type.
  static void ReadBody(const HttpListener::Handler& handler,
                       std::size_t max_body, const httplib::Request& request,
                       const httplib::ContentReader& content,
                       httplib::Response* response) {
    if (request.is_multipart_form_data()) {
      return ReplyError({Code::kInvalidArgument,
                         "the body is multipart/form-data; the content itself "
                         "is accepted as the body"},
                        response);
    }
    httplib::Request whole = request;
    bool fits = true;
    const bool complete = content([&](const char* data, std::size_t size) {
      fits = size <= max_body - whole.body.size();
      if (fits) whole.body.append(data, size);
      return fits;
    });
    if (fits && complete) return handler(whole, response);
    unread = true;
    if (fits && response->status != 413) {
      return ReplyError({Code::kInvalidArgument, "the body is incomplete"},
                        response);
    }
    ReplyError(
        {Code::kInvalidArgument,
         fmt::format("the body is larger than {}, the most accepted here{}",
                     FormatBytes(Bytes(std::int64_t(max_body))),
                     request.path.starts_with("/v1/networks/")
                         ? "; `ucudnn networks put` sends a model without its "
                           "weights, and `ucudnn networks convert` writes its "
                           "convolutions as CSV"
                         : "")},
        response, 413);
  }

  // Explains the status that httplib chose.
  void ReplyRefusal(const httplib::Request& request,
                    httplib::Response* response) const {
    const int status = response->status;
    std::vector<std::string> methods;
    for (const Known& route : routes_) {
      if (std::regex_match(request.path, route.path)) {
        methods.push_back(route.method);
      }
    }
    const bool other = std::find(methods.begin(), methods.end(),
                                 request.method) == methods.end();
    if (status == 404 && other && !methods.empty()) {
      ReplyError({Code::kUnimplemented,
                  fmt::format("{} is not accepted here; {} is", request.method,
                              fmt::join(methods, " or "))},
                 response, 405);
      response->set_header("Allow",
                           fmt::format("{}", fmt::join(methods, ", ")));
      return;
    }
    if (status == 404) {
      return ReplyError(
          {Code::kNotFound, fmt::format("there is no {} {}", request.method,
                                        Excerpt(request.path, 200))},
          response);
    }
    ReplyError({Code::kInvalidArgument,
                "the request is not HTTP/1.1 as RFC "
                "9112 has it, or a part is too long"},
               response, status);
  }

  bool process_and_close_socket(socket_t socket) override {
    if (refusing && guard_.files() == nullptr) {
      (void)!send(socket, TooMany().data(), TooMany().size(),
                  MSG_DONTWAIT | MSG_NOSIGNAL);
      // What is not read would make the system reset the connection, and the
      // client lose the answer.
      std::array<char, 4096> unread_bytes;
      (void)!recv(socket, unread_bytes.data(), unread_bytes.size(),
                  MSG_DONTWAIT);
    } else if (!refusing) {
      Serve(socket);
    }
    shutdown(socket, SHUT_RDWR);
    close(socket);
    return true;
  }

  void Serve(socket_t socket) {
    const int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    const std::shared_ptr<SSL_CTX> tls = guard_.tls();
    HttpConnection connection(
        socket, [this] { return svr_sock_ == INVALID_SOCKET; }, tls.get());
    client_certificate.clear();
    bool closed = false;
    for (std::size_t left = keep_alive_max_count_; left > 0 && !closed;
         --left) {
      if (!connection.AwaitRequest([this] { return open_ < max_; })) return;
      const auto restrict = [](httplib::Request& request) {
        // Many ranges of a long answer would be a far longer one.
        request.ranges.clear();
        // Brotli, as httplib calls it, takes seconds for a long answer.
        const bool gzip =
            request.get_header_value("Accept-Encoding").find("gzip") !=
            std::string::npos;
        request.headers.erase("Accept-Encoding");
        if (gzip) request.set_header("Accept-Encoding", "gzip");
      };
      unread = false;
      client_certificate = connection.certificate();
      if (!process_request(connection, left == 1, closed, restrict)) return;
      if (unread) {
        connection.Close();
        return Drain(socket);
      }
    }
    connection.Close();
  }

  // Reads what the client still sends, for a while: closing the connection
  // before would reset it, and the client lose the answer.
  static void Drain(socket_t socket) {
    constexpr std::chrono::seconds kPatience{2};
    shutdown(socket, SHUT_WR);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    std::vector<char> ignored(std::size_t{64} << 10U);
    pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
    while (std::chrono::steady_clock::now() < end) {
      if (poll(&waiting, 1, 100) == 0) continue;
      if (recv(socket, ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) {
        return;
      }
    }
  }

  const std::size_t max_;
  const Guard& guard_;
  std::atomic<std::size_t> open_ = 0;
  std::vector<Known> routes_;
};

struct HttpListener::Listener {
  Listener(std::size_t max_connections, const Guard& guard)
      : http(max_connections, guard) {}

  // The listener ends if it cannot accept connections, as when memory runs out;
  // it is then set up again.
  void Serve() {
    constexpr std::chrono::milliseconds kPause{200};
    for (bool bound = true;; bound = http.bind_to_port(host, port)) {
      if (bound) http.Accept();
      std::unique_lock lock(mutex);
      if (stopping) return;
      spdlog::error("event=http_listener_{} port={} retry_ms={}",
                    bound ? "ended" : "failed", port, kPause.count());
      if (changed.wait_for(lock, kPause, [this] { return stopping; })) return;
    }
  }

  Server http;
  std::string host;
  int port = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  std::atomic<bool> ended = false;
  std::thread thread;
};

HttpListener::HttpListener(std::size_t max_connections, const Guard& guard)
    : listener_(std::make_unique<Listener>(max_connections, guard)) {}

HttpListener::~HttpListener() { Stop(); }

const std::string& HttpListener::ClientCertificate() {
  return client_certificate;
}

void HttpListener::Route(const std::string& method, const std::string& pattern,
                         Handler handler, std::size_t max_body) {
  listener_->http.Route(method, pattern, handler, max_body);
}

std::vector<HttpRoute> HttpListener::routes() const {
  return listener_->http.routes();
}

int HttpListener::port() const { return listener_->port; }

Status HttpListener::Listen(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const auto port = colon == std::string::npos
                        ? Fail(Code::kInvalidArgument, "no port")
                        : ParseInteger(address.substr(colon + 1), 0, 65535);
  if (!port) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not an address; host:port is accepted", address);
  }
  Listener& l = *listener_;
  l.host = address.substr(0, colon);
  l.port = static_cast<int>(*port);
  const bool bound = l.port == 0
                         ? (l.port = l.http.bind_to_any_port(l.host)) > 0
                         : l.http.bind_to_port(l.host, l.port);
  if (!bound) {
    return Fail(Code::kUnavailable, "cannot listen on {} for HTTP", address);
  }
  l.thread = std::thread([&l] {
    l.Serve();
    l.ended = true;
  });
  return {};
}

void HttpListener::Stop() {
  Listener& l = *listener_;
  if (!l.thread.joinable()) return;
  {
    const std::lock_guard lock(l.mutex);
    l.stopping = true;
  }
  l.changed.notify_all();
  // stop() has no effect before the listener runs.
  while (!l.http.is_running() && !l.ended) std::this_thread::yield();
  if (!l.ended) l.http.stop();
  l.thread.join();
}

}  // namespace ucudnn
