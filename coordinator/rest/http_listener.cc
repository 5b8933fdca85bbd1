#include "coordinator/rest/http_listener.h"

#include <fmt/ranges.h>
#include <httplib.h>
#include <malloc.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <regex>
#include <thread>
#include <utility>
#include <vector>

#include "base/service/address.h"
#include "base/text.h"
#include "base/units.h"
#include "coordinator/limits.h"
#include "coordinator/rest/http_connection.h"
#include "coordinator/rest/http_head.h"
#include "coordinator/rest/http_places.h"
#include "coordinator/rest/problem.h"
#include "coordinator/security/guard.h"

namespace ucudnn {
namespace {

// The last answer of a connection, which no handler sees.
std::string Answer(const Error& error, int status, std::string_view title) {
  const std::string body = ProblemText(error, status);
  return fmt::format(
      "HTTP/1.1 {} {}\r\n{}Content-Type: {}\r\nConnection: close\r\n"
      "Content-Length: {}\r\n\r\n{}",
      status, title, status == 503 ? "Retry-After: 1\r\n" : "", kProblemType,
      body.size(), body);
}

// To a connection too many.
const std::string& TooMany() {
  static const std::string answer = Answer(
      {Code::kUnavailable, "all HTTP connections that you may have are in use"},
      503, "Service Unavailable");
  return answer;
}

// Set if the request that this thread answers was not read to its end.
thread_local bool unread = false;

struct Refusal {
  Error error;
  int status = 0;  // 0: that of the error's code
};

// Why the request that this thread answers is refused without its body.
thread_local std::optional<Refusal> refusal;
// Of the client whom this thread answers.
thread_local std::string client_certificate;

// The address of the socket's client, without the port.
std::string SourceOf(socket_t socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto* peer = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  getpeername(socket, peer, &size);
  getnameinfo(peer, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return host.data();
}

}  // namespace

// A thread for each connection.
class ConnectionThreads final : public httplib::ThreadPool {
 public:
  explicit ConnectionThreads(std::size_t max) : ThreadPool(max) {}

  // The listening thread itself finds a place for the connection.
  void enqueue(std::function<void()> accept) override { accept(); }
  void Serve(std::function<void()> serve) {
    ThreadPool::enqueue(std::move(serve));
  }
};

// Bytes that count towards a sum while this lives.
class CountedBytes {
 public:
  explicit CountedBytes(std::atomic<std::size_t>* sum) : sum_(*sum) {}
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;
  ~CountedBytes() { sum_ -= bytes_; }

  // Whether the sum is `max` at most with `bytes` more.
  bool Add(std::size_t bytes, std::size_t max) {
    bytes_ += bytes;
    return (sum_ += bytes) <= max;
  }

 private:
  std::atomic<std::size_t>& sum_;
  std::size_t bytes_ = 0;
};

// httplib's server over our connections.
class HttpListener::Server final : public httplib::Server {
 public:
  Server(std::size_t max_connections, const Guard& guard)
      : max_(max_connections), guard_(guard), places_(max_connections) {
    new_task_queue = [this] { return threads_ = new ConnectionThreads(max_); };
    set_payload_max_length(std::size_t{kMaxRequestBytes});
    set_keep_alive_max_count(1000);
    // Without SO_REUSEPORT, which would let two processes share the port.
    set_socket_options([](int socket) {
      const int yes = 1;
      const int no = 0;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
      // Fails on sockets of IPv4.
      setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    });
    set_pre_routing_handler([this](const auto& request, auto& response) {
      if (!refusal) return HandlerResponse::Unhandled;
      response.status = refusal->status;
      if (refusal->status == 404) {
        ReplyRefusal(request, &response);
      } else {
        ReplyError(refusal->error, &response, refusal->status);
      }
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
             const HttpListener::Handler& handler, const HttpBody& body) {
    routes_.push_back({method, pattern, std::regex(pattern), body});
    if (method == "GET" || method == "DELETE") {
      const auto answer = [handler](const auto& request, auto& response) {
        handler(request, &response);
      };
      method == "GET" ? Get(pattern, answer) : Delete(pattern, answer);
      return;
    }
    const auto read = [this, handler, max = body.max_bytes](
                          const httplib::Request& request,
                          httplib::Response& response,
                          const httplib::ContentReader& content) {
      ReadBody(handler, max, request, content, &response);
    };
    method == "PUT" ? Put(pattern, read) : Post(pattern, read);
  }

  // The host on which it listens.
  void set_host(const std::string& host) { host_ = host; }

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
    HttpBody body;
  };

  // Why the request is refused without its body, if it is.
  std::optional<Refusal> Refuse(const HttpHead& head,
                                const httplib::Request& request) const {
    const auto invalid = [](std::string why, int status) {
      return Refusal{{Code::kInvalidArgument, std::move(why)}, status};
    };
    // TLS vouches for the name that a client calls us by.
    if (guard_.files() == nullptr && !IsHostOfOurs(head.host, host_)) {
      return invalid(
          fmt::format(
              "Host is '{}'; without TLS, addresses, names without a dot and "
              "the host of --http are accepted",
              Excerpt(head.host)),
          421);
    }
    if (!head.origin.empty() && !IsOriginOf(head.origin, head.host)) {
      return Refusal{{Code::kPermissionDenied,
                      fmt::format("Origin is '{}'; pages of '{}' are accepted",
                                  Excerpt(head.origin), Excerpt(head.host))}};
    }
    if (request.has_header("Range")) {
      return invalid(
          "the header Range is given; requests without it are accepted", 400);
    }
    if (request.method != "PUT" && request.method != "POST") {
      if (head.content_length == 0) return std::nullopt;
      return Refusal{{}, 404};
    }
    const auto route = std::ranges::find_if(routes_, [&](const Known& known) {
      return known.method == request.method &&
             std::regex_match(request.path, known.path);
    });
    if (route == routes_.end()) return Refusal{{}, 404};
    const HttpBody& body = route->body;
    if (body.admit) {
      if (Status admitted = body.admit(request); !admitted) {
        return Refusal{std::move(admitted).error()};
      }
    }
    if (std::ranges::find(body.types, head.content_type) == body.types.end()) {
      return invalid(fmt::format("Content-Type is '{}'; {} is accepted",
                                 Excerpt(head.content_type),
                                 fmt::join(body.types, " or ")),
                     415);
    }
    if (head.content_length > body.max_bytes) {
      return TooLong(body.max_bytes, request.path);
    }
    return std::nullopt;
  }

  static Refusal TooLong(std::size_t max, const std::string& path) {
    return {{Code::kInvalidArgument,
             fmt::format("the body is larger than {}, the most accepted here{}",
                         FormatBytes(Bytes(std::int64_t(max))),
                         path.starts_with("/v1/networks/")
                             ? "; `ucudnn networks put` sends a model without "
                               "its weights, and `ucudnn networks convert` "
                               "writes its convolutions as CSV"
                             : "")},
            413};
  }

  // httplib hands out the body itself only where it accepts the content type.
  void ReadBody(const HttpListener::Handler& handler, std::size_t max_body,
                const httplib::Request& request,
                const httplib::ContentReader& content,
                httplib::Response* response) {
    httplib::Request whole = request;
    CountedBytes counted(&body_bytes_);
    bool fits = true;
    bool room = true;
    const bool complete = content([&](const char* data, std::size_t size) {
      fits = size <= max_body - whole.body.size();
      room = counted.Add(size, kMaxHttpBodyBytes);
      if (fits && room) whole.body.append(data, size);
      return fits && room;
    });
    if (fits && room && complete) {
      handler(whole, response);
      const bool is_long = whole.body.size() > kLongBodyBytes;
      whole.body = std::string();
      if (is_long) malloc_trim(0);
      return;
    }
    unread = true;
    if (!room) {
      return ReplyError(
          {Code::kResourceExhausted,
           "the coordinator is busy with other requests' bodies; try again in "
           "a second"},
          response);
    }
    if (fits && response->status != 413) {
      return ReplyError({Code::kInvalidArgument, "the body is incomplete"},
                        response);
    }
    const Refusal refused = TooLong(max_body, request.path);
    ReplyError(refused.error, response, refused.status);
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

  // In the listening thread.
  bool process_and_close_socket(socket_t socket) override {
    if (places_.Take(socket, SourceOf(socket))) {
      threads_->Serve([this, socket] {
        Serve(socket);
        places_.Leave(socket);
        Close(socket);
      });
      return true;
    }
    if (guard_.files() == nullptr) {
      (void)!send(socket, TooMany().data(), TooMany().size(),
                  MSG_DONTWAIT | MSG_NOSIGNAL);
      // What is not read would make the system reset the connection, and the
      // client lose the answer.
      std::array<char, 4096> unread_bytes;
      (void)!recv(socket, unread_bytes.data(), unread_bytes.size(),
                  MSG_DONTWAIT);
    }
    Close(socket);
    return true;
  }

  static void Close(socket_t socket) {
    shutdown(socket, SHUT_RDWR);
    close(socket);
  }

  void Serve(socket_t socket) {
    const int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    const std::shared_ptr<SSL_CTX> tls = guard_.tls();
    HttpConnection connection(
        socket, places_, [this] { return svr_sock_ == INVALID_SOCKET; },
        tls.get());
    client_certificate.clear();
    bool closed = false;
    for (std::size_t left = keep_alive_max_count_; left > 0 && !closed;
         --left) {
      if (!connection.AwaitHead()) return;
      const Result<HttpHead> head = ParseHttpHead(connection.head());
      const auto restrict = [&](httplib::Request& request) {
        // Many ranges of a long answer would be a far longer one.
        request.ranges.clear();
        // Brotli, as httplib calls it, takes seconds for a long answer.
        const bool gzip =
            request.get_header_value("Accept-Encoding").find("gzip") !=
            std::string::npos;
        request.headers.erase("Accept-Encoding");
        if (gzip) request.set_header("Accept-Encoding", "gzip");
        refusal = Refuse(*head, request);
        unread = refusal.has_value();
        // httplib would read on until the connection ends.
        if (!request.has_header("Content-Length")) {
          request.set_header("Content-Length", "0");
        }
        if (!refusal) return;
        request.headers.erase("Expect");
        request.headers.erase("Connection");
        request.set_header("Connection", "close");
      };
      client_certificate = connection.certificate();
      // Unless httplib understands the head.
      unread = true;
      refusal.reset();
      if (!head) {
        const std::string answer = Answer(head.error(), 400, "Bad Request");
        connection.write(answer.data(), answer.size());
      } else if (!process_request(connection, left == 1, closed, restrict)) {
        return;
      }
      if (unread) {
        connection.Close();
        places_.Set(socket, HttpPlaces::Waits::kForHead,
                    std::chrono::steady_clock::now());
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
  std::string host_;
  HttpPlaces places_;
  ConnectionThreads* threads_ = nullptr;  // httplib's, while it listens
  std::atomic<std::size_t> body_bytes_ = 0;
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
                         Handler handler, HttpBody body) {
  listener_->http.Route(method, pattern, handler, body);
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
  l.http.set_host(address.substr(0, colon));
  l.port = static_cast<int>(*port);
  bool bound = false;
  errno = 0;
  for (const std::string& wanted : ListenAddresses(address)) {
    l.host = SplitEndpoint(wanted).host;
    bound = *port == 0 ? (l.port = l.http.bind_to_any_port(l.host)) > 0
                       : l.http.bind_to_port(l.host, l.port);
    if (bound) break;
  }
  if (!bound) {
    return Fail(Code::kUnavailable, "cannot listen on {} for HTTP: {}", address,
                errno == 0 ? "the host has no address" : std::strerror(errno));
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
