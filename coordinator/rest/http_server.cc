#include "coordinator/rest/http_server.h"

#include <fmt/ranges.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <chrono>
#include <limits>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/service/address.h"
#include "base/service/log.h"
#include "base/text.h"
#include "base/units.h"
#include "coordinator/limits.h"
#include "coordinator/listener.h"
#include "coordinator/rest/host_check.h"
#include "coordinator/rest/problem.h"
#include "coordinator/security/guard.h"
#include "coordinator/security/openssl.h"
#include "proto/job_key.h"

namespace ucudnn {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

using Parser = http::request_parser<http::string_body>;
using Head = Parser::value_type;

constexpr std::size_t kPieceBytes = std::size_t{16} << 10U;
// How often connections are looked at whose time may be up.
constexpr milliseconds kLook{100};
// How long an answer may still take when the server stops, and a client may
// still send what is not read.
constexpr milliseconds kLastWords{2'000};

HttpResponse Invalid(std::string why, int status = 400) {
  return Problem({Code::kInvalidArgument, std::move(why)}, status);
}

std::string_view Text(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// The answer's lines before its body.
std::string HeadOf(const HttpResponse& response, bool closes) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                                 Text(http::obsolete_reason(http::int_to_status(
                                     static_cast<unsigned>(response.status)))));
  const auto add = [&](std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  };
  if (!response.type.empty()) add("Content-Type", response.type);
  for (const auto& [name, value] : response.headers) add(name, value);
  if (closes) add("Connection", "close");
  if (response.next) {
    add("Transfer-Encoding", "chunked");
  } else {
    add("Content-Length", std::to_string(response.body.size()));
  }
  return head + "\r\n";
}

// What a proxy could read in another way than we do, if anything.
std::optional<std::string> Ambiguity(const Head& head) {
  const std::string_view target = Text(head.target());
  if (head.method() == http::verb::unknown || !target.starts_with('/') ||
      !std::ranges::all_of(target,
                           [](char c) { return c > 0x20 && c < 0x7f; }) ||
      (head.version() != 10 && head.version() != 11)) {
    return fmt::format(
        "the request's line is '{} {}'; METHOD /PATH HTTP/1.1 is accepted",
        Excerpt(Text(head.method_string())), Excerpt(target));
  }
  if (head.count(http::field::transfer_encoding) > 0) {
    return fmt::format(
        "Transfer-Encoding is '{}'; Content-Length instead is accepted",
        Excerpt(Text(head[http::field::transfer_encoding])));
  }
  for (const http::field name :
       {http::field::content_length, http::field::host, http::field::origin,
        http::field::content_type, http::field::authorization}) {
    if (head.count(name) > 1) {
      return fmt::format("{} is given twice; one is accepted",
                         Text(http::to_string(name)));
    }
  }
  const std::string_view length = Text(head[http::field::content_length]);
  if ((length.empty() && head.count(http::field::content_length) > 0) ||
      !std::ranges::all_of(length,
                           [](char c) { return c >= '0' && c <= '9'; })) {
    return fmt::format("Content-Length is '{}'; a number of bytes is accepted",
                       Excerpt(length));
  }
  if (head.version() == 11 && head[http::field::host].empty()) {
    return "Host is absent or empty; HTTP/1.1 requires it";
  }
  if (length.find_first_not_of('0') != std::string_view::npos &&
      head.method() != http::verb::put && head.method() != http::verb::post &&
      head.method() != http::verb::patch) {
    return fmt::format("{} has a body of {} bytes; none is accepted",
                       Text(head.method_string()), Excerpt(length));
  }
  return std::nullopt;
}

// "Text/CSV; charset=utf-8" as "text/csv".
std::string TypeIn(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  while (type.ends_with(' ') || type.ends_with('\t')) type.pop_back();
  for (char& c : type) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return type;
}

HttpResponse TooLong(std::size_t max, const std::string& path) {
  return Invalid(
      fmt::format("the body is larger than {}, the most accepted here{}",
                  FormatBytes(Bytes(std::int64_t(max))),
                  path.starts_with("/v1/networks/")
                      ? "; `ucudnn networks put` sends a model without its "
                        "weights, and `ucudnn networks convert` writes its "
                        "convolutions as CSV"
                      : ""),
      413);
}

}  // namespace

// All but Route, Listen and Stop runs in one thread.
class HttpServer::Server
    : public std::enable_shared_from_this<HttpServer::Server> {
 public:
  struct Known {
    HttpRoute route;
    HttpHandler handler;
    HttpBody body;
  };

  Server(std::size_t max_connections, const Guard& guard)
      : guard_(guard), max_(max_connections) {}

  void Add(Known known) {
    const auto text = [](const Known& one) {
      std::size_t size = 0;
      bool counts = true;
      for (const char c : one.route.path) {
        counts = c == '}' || (counts && c != '{');
        size += counts ? 1 : 0;
      }
      return size;
    };
    routes_.insert(
        std::ranges::upper_bound(routes_, text(known), std::greater<>(), text),
        std::move(known));
  }
  std::vector<HttpRoute> routes() const {
    std::vector<HttpRoute> all;
    for (const Known& known : routes_) all.push_back(known.route);
    return all;
  }

  Status Listen(const std::string& address);
  void Stop();
  int port() const { return listener_->port(); }

  const Guard& guard() const { return guard_; }
  asio::io_context& io() { return io_; }
  bool stopping() const { return stopping_; }
  // Whether more than half of the places are taken.
  bool crowded() const { return 2 * sessions_.size() > max_; }

  // Adds what the head says to `request`, and finds its route; or why the
  // request is refused without its body.
  std::optional<HttpResponse> Refuse(const Head& head, HttpRequest* request,
                                     const Known** route) const;

  // Counts bytes of bodies that are read or answered; false if there are too
  // many.
  bool AddBodyBytes(std::size_t bytes) {
    body_bytes_ += bytes;
    return body_bytes_ <= kMaxHttpBodyBytes;
  }
  void RemoveBodyBytes(std::size_t bytes) {
    body_bytes_ -= bytes;
    if (bytes > kLongBodyBytes) malloc_trim(0);
  }

  void Remove(const std::shared_ptr<Session>& session) {
    sessions_.erase(session);
  }

 private:
  void Accept(int connection);
  // Whether a connection of `source` has a place, perhaps that of another.
  bool MakePlace(const std::string& source);
  // Ends the connections whose time is up.
  void Look();
  HttpResponse NoRoute(const HttpRequest& request) const;

  const Guard& guard_;
  const std::size_t max_;
  std::string host_;           // on which it listens
  std::vector<Known> routes_;  // those with most text first
  asio::io_context io_{1};
  asio::steady_timer timer_{io_};
  bool stopping_ = false;
  std::size_t body_bytes_ = 0;
  std::set<std::shared_ptr<Session>> sessions_;
  std::unique_ptr<Listener> listener_;
  std::jthread thread_;
};

// A connection.
class HttpServer::Session
    : public std::enable_shared_from_this<HttpServer::Session> {
  enum class Phase { kIdle, kHead, kReading, kWorking, kWriting, kClosing };

  // Goes on with `next`, or ends the session if the operation fails.
  template <class Next>
  auto Then(Next next) {
    return [self = shared_from_this(), next = std::move(next)](
               error_code failed, std::size_t count = 0) mutable {
      if (failed) {
        self->End();
      } else {
        next(count);
      }
    };
  }

 public:
  Session(std::shared_ptr<Server> server, tcp::socket socket,
          std::string source)
      : shared_server_(std::move(server)),
        socket_(std::move(socket)),
        source_(std::move(source)) {}
  ~Session() { ForgetBody(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start() {
    const std::shared_ptr<SSL_CTX> tls = server_.guard().tls();
    if (tls == nullptr) return AwaitRequest();
    SSL_CTX_up_ref(tls.get());
    asio::ssl::context context(tls.get());
    tls_.emplace(socket_, context);
    Enter(Phase::kHead);
    tls_->async_handshake(asio::ssl::stream_base::server, Then([this](auto) {
                            certificate_ = PeerCertificate();
                            AwaitRequest();
                          }));
  }

  const std::string& source() const { return source_; }

  // Whom to end first for another's place: who waits for a head without a byte
  // to read, or else longer than kHttpCrowded for its client; and of these who
  // does for longest. Nothing if it cannot be ended.
  std::optional<std::pair<bool, steady_clock::time_point>> Rank() {
    const bool for_head = phase_ == Phase::kIdle || phase_ == Phase::kHead ||
                          phase_ == Phase::kClosing;
    if (for_head) {
      // It may not have come to reading them yet.
      error_code failed;
      if (phase_ != Phase::kClosing && socket_.available(failed) > 0) {
        return std::nullopt;
      }
    } else if (phase_ == Phase::kWorking ||
               steady_clock::now() - since_ < kHttpCrowded) {
      return std::nullopt;
    }
    return std::pair(!for_head, since_);
  }

  bool IsOverdue() const {
    const auto took = steady_clock::now() - since_;
    const milliseconds moving =
        kHttpPatience + milliseconds(moved_ * 1000 >> 20U);
    const bool stops = server_.stopping();
    switch (phase_) {
      case Phase::kIdle:
        return stops || took > (server_.crowded() ? kHttpCrowded : kHttpIdle);
      case Phase::kHead:
        return stops ||
               took > (server_.crowded() ? kHttpCrowded : kHttpPatience);
      case Phase::kReading:
        return stops || took > moving;
      case Phase::kWorking:
        return false;
      case Phase::kWriting:
        return took > (stops ? kLastWords : moving);
      case Phase::kClosing:
        return stops || took > kLastWords;
    }
    return true;
  }

  void End() {
    error_code failed;
    socket_.close(failed);
    server_.Remove(shared_from_this());
  }

 private:
  void Enter(Phase phase, std::size_t moved = 0) {
    phase_ = phase;
    since_ = steady_clock::now();
    moved_ = moved;
  }

  template <class Act>
  void WithStream(const Act& act) {
    if (tls_) {
      act(*tls_);
    } else {
      act(socket_);
    }
  }

  std::string PeerCertificate() {
    const X509Ptr peer(SSL_get1_peer_certificate(tls_->native_handle()));
    if (peer == nullptr) return "";
    const BioPtr pem(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(pem.get(), peer.get());
    return TextOf(pem);
  }

  void AwaitRequest() {
    parser_.emplace();
    parser_->header_limit(kMaxHttpHeadBytes);
    // Routes have limits of their own.
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
    request_ = nullptr;
    Enter(buffer_.size() == 0 ? Phase::kIdle : Phase::kHead);
    Parse();
  }

  void Read() {
    WithStream([&](auto& stream) {
      stream.async_read_some(buffer_.prepare(kPieceBytes),
                             Then([this](std::size_t count) {
                               buffer_.commit(count);
                               moved_ += count;
                               if (phase_ == Phase::kIdle) Enter(Phase::kHead);
                               Parse();
                             }));
    });
  }

  void Parse() {
    while (true) {
      if (buffer_.size() == 0) return Read();
      error_code failed;
      buffer_.consume(parser_->put(asio::const_buffer(buffer_.data()), failed));
      if (failed == http::error::need_more) return Read();
      if (failed) {
        return Write(Invalid(
            fmt::format("the request is not HTTP/1.1 as RFC 9112 has it: {}",
                        failed.message()),
            failed == http::error::header_limit ? 431 : 400));
      }
      if (request_ == nullptr) {
        if (parser_->is_header_done() && !TakeHead()) return;
      } else if (!CountBody()) {
        return Write(Problem({Code::kResourceExhausted,
                              "the coordinator is busy with other requests' "
                              "bodies; try again in a second"}));
      }
      if (parser_->is_done()) return Handle();
    }
  }

  // Whether to read the body now.
  bool TakeHead() {
    const Head& head = parser_->get();
    Enter(Phase::kReading);
    request_ = std::make_shared<HttpRequest>();
    request_->peer.host = source_;
    request_->peer.certificate = certificate_;
    if (auto why = Ambiguity(head)) {
      Write(Invalid(*std::move(why)), /*closes=*/true);
      return false;
    }
    if (auto refused = server_.Refuse(head, request_.get(), &route_)) {
      Write(*std::move(refused));
      return false;
    }
    if (parser_->is_done() || buffer_.size() > 0 ||
        !boost::beast::iequals(head[http::field::expect], "100-continue")) {
      return true;
    }
    Send("HTTP/1.1 100 Continue\r\n\r\n", "", [this] { Parse(); });
    return false;
  }

  bool CountBody() {
    const std::size_t more = parser_->get().body().size() - counted_;
    counted_ += more;
    return server_.AddBodyBytes(more);
  }
  void ForgetBody() {
    if (counted_ > 0) server_.RemoveBodyBytes(std::exchange(counted_, 0));
  }

  void Handle() {
    request_->body = std::move(parser_->get().body());
    Enter(Phase::kWorking);
    const HttpReply reply = [self = shared_from_this()](HttpResponse response) {
      asio::dispatch(self->server_.io(),
                     [self, response = std::move(response)]() mutable {
                       self->Write(std::move(response));
                     });
    };
    try {
      route_->handler(request_, reply);
    } catch (const std::exception& thrown) {
      spdlog::error("event=http_request_failed method={} error={}",
                    request_->method, Quoted(Excerpt(thrown.what(), 200)));
      reply(Problem({Code::kInternal, "the request could not be answered"}));
    }
  }

  // Closes the connection then if the request was not read to its end, too.
  void Write(HttpResponse response, bool closes = false) {
    closes_ = closes || !parser_->is_done() || !parser_->get().keep_alive() ||
              server_.stopping();
    std::string head = HeadOf(response, closes_);
    if (request_ != nullptr && request_->method == "HEAD") {
      response.body.clear();
      response.next = nullptr;
    }
    request_ = nullptr;
    ForgetBody();
    next_ = std::move(response.next);
    if (next_) response.body = Chunk(response.body);
    Enter(Phase::kWriting, response.body.size());
    Send(std::move(head), std::move(response.body), [this] { WriteNext(); });
  }

  static std::string Chunk(const std::string& piece) {
    return piece.empty() ? ""
                         : fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }

  // The next piece of the answer, if there is one.
  void WriteNext() {
    if (!next_) return closes_ ? Close() : AwaitRequest();
    Enter(Phase::kWorking);
    next_([self = shared_from_this()](Result<std::string> piece) {
      asio::dispatch(self->server_.io(),
                     [self, piece = std::move(piece)]() mutable {
                       self->WritePiece(std::move(piece));
                     });
    });
  }

  void WritePiece(Result<std::string> piece) {
    if (!piece || server_.stopping()) return End();
    if (piece->empty()) next_ = nullptr;
    Enter(Phase::kWriting, piece->size());
    Send(piece->empty() ? "0\r\n\r\n" : Chunk(*piece), "",
         [this] { WriteNext(); });
  }

  template <class Next>
  void Send(std::string head, std::string body, Next next) {
    outgoing_ = {std::move(head), std::move(body)};
    const std::array buffers = {asio::buffer(outgoing_[0]),
                                asio::buffer(outgoing_[1])};
    WithStream([&](auto& stream) {
      asio::async_write(stream, buffers, Then([this, next](auto) {
                          outgoing_ = {};
                          next();
                        }));
    });
  }

  void Close() {
    Enter(Phase::kClosing);
    if (!tls_) return Drain();
    tls_->async_shutdown(
        [self = shared_from_this()](error_code) { self->Drain(); });
  }

  // Reads what the client still sends, for a while: closing the connection
  // before would reset it, and the client lose the answer.
  void Drain() {
    error_code failed;
    socket_.shutdown(tcp::socket::shutdown_send, failed);
    buffer_.clear();
    Ignore();
  }
  void Ignore() {
    socket_.async_read_some(buffer_.prepare(kPieceBytes),
                            Then([this](auto) { Ignore(); }));
  }

  // Answers may come from threads that outlast HttpServer.
  const std::shared_ptr<Server> shared_server_;
  Server& server_ = *shared_server_;
  tcp::socket socket_;
  std::optional<asio::ssl::stream<tcp::socket&>> tls_;
  const std::string source_;
  std::string certificate_;
  Phase phase_ = Phase::kIdle;
  steady_clock::time_point since_ = steady_clock::now();  // of the phase
  std::size_t moved_ = 0;                                 // bytes in it
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::shared_ptr<HttpRequest> request_;  // null until its head is read
  const Server::Known* route_ = nullptr;
  std::size_t counted_ = 0;  // of the body's bytes
  std::array<std::string, 2> outgoing_;
  std::function<void(HttpResponse::Give)> next_;
  bool closes_ = false;
};

Status HttpServer::Server::Listen(const std::string& address) {
  if (!IsHostAndPort(address, 0)) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not an address; host:port is accepted", address);
  }
  host_ = SplitEndpoint(address).host;
  UCUDNN_ASSIGN_OR_RETURN(
      listener_, Listener::Open(address, "HTTP", 0, [this](int connection) {
        asio::post(io_, [this, connection] { Accept(connection); });
      }));
  Look();
  listener_->Start();
  thread_ = std::jthread([this] { io_.run(); });
  return {};
}

void HttpServer::Server::Stop() {
  if (!thread_.joinable()) return;
  listener_->Stop();
  asio::post(io_, [this] {
    stopping_ = true;
    timer_.cancel();
  });
  thread_.join();
}

void HttpServer::Server::Look() {
  for (const auto& session : std::vector(sessions_.begin(), sessions_.end())) {
    if (session->IsOverdue()) session->End();
  }
  if (stopping_ && sessions_.empty()) return;
  timer_.expires_after(kLook);
  timer_.async_wait([this](error_code) { Look(); });
}

void HttpServer::Server::Accept(int connection) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getpeername(connection, reinterpret_cast<sockaddr*>(&address), &size);
  error_code failed;
  tcp::socket socket(io_);
  socket.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(),
                connection, failed);
  if (failed) {
    close(connection);
    return;
  }
  const tcp::endpoint from = socket.remote_endpoint(failed);
  if (failed || stopping_) return;
  std::string source = from.address().to_string();
  if (MakePlace(source)) {
    const auto session = std::make_shared<Session>(
        shared_from_this(), std::move(socket), std::move(source));
    sessions_.insert(session);
    session->Start();
    return;
  }
  if (guard_.files() != nullptr) return;
  const HttpResponse refused =
      Problem({Code::kUnavailable,
               "all HTTP connections that you may have are in use"});
  const std::string answer = HeadOf(refused, true) + refused.body;
  (void)!send(connection, answer.data(), answer.size(),
              MSG_DONTWAIT | MSG_NOSIGNAL);
  // What is not read would make the system reset the connection, and the client
  // lose the answer.
  std::array<char, 4096> unread;
  (void)!recv(connection, unread.data(), unread.size(), MSG_DONTWAIT);
}

bool HttpServer::Server::MakePlace(const std::string& source) {
  const auto own = static_cast<std::size_t>(std::ranges::count(
      sessions_, source,
      [](const auto& session) { return session->source(); }));
  const bool has_share = 2 * own >= max_;
  if (!has_share && sessions_.size() < max_) return true;
  std::shared_ptr<Session> first;
  decltype(first->Rank()) least;
  for (const auto& session : sessions_) {
    if (has_share && session->source() != source) continue;
    const auto rank = session->Rank();
    if (!rank || (least && *least <= *rank)) continue;
    first = session;
    least = rank;
  }
  if (first == nullptr) return false;
  first->End();
  return true;
}

std::optional<HttpResponse> HttpServer::Server::Refuse(
    const Head& head, HttpRequest* request, const Known** route) const {
  const std::string_view target = Text(head.target());
  if (target.size() > kMaxHttpTargetBytes) {
    return Invalid(fmt::format("the path has {} bytes; up to {} are accepted",
                               target.size(), kMaxHttpTargetBytes),
                   414);
  }
  const std::size_t query = target.find('?');
  request->method = Text(head.method_string());
  request->path = DecodePercent(target.substr(0, query), false);
  if (query != std::string_view::npos) {
    request->query = ParseQuery(target.substr(query + 1));
  }
  request->peer.authorization = Text(head[http::field::authorization]);
  request->peer.job_key = Text(head[kJobKeyHeader]);
  request->if_none_match = Text(head[http::field::if_none_match]);
  const std::string_view host = Text(head[http::field::host]);
  // TLS vouches for the name that a client calls us by.
  if (guard_.files() == nullptr && !IsHostOfOurs(host, host_)) {
    return Invalid(
        fmt::format("Host is '{}'; without TLS, addresses, names without a dot "
                    "and the host of --http are accepted",
                    Excerpt(host)),
        421);
  }
  const std::string_view origin = Text(head[http::field::origin]);
  if (!origin.empty() && !IsOriginOf(origin, host)) {
    return Problem({Code::kPermissionDenied,
                    fmt::format("Origin is '{}'; pages of '{}' are accepted",
                                Excerpt(origin), Excerpt(host))});
  }
  for (const http::field name :
       {http::field::range, http::field::content_encoding}) {
    if (head.count(name) == 0) continue;
    return Invalid(
        fmt::format("the header {} is given; requests without it "
                    "are accepted",
                    Text(http::to_string(name))));
  }
  const std::string method =
      request->method == "HEAD" ? "GET" : request->method;
  const auto found = std::ranges::find_if(routes_, [&](const Known& known) {
    return known.route.method == method &&
           MatchPath(known.route.path, request->path, &request->matches);
  });
  if (found == routes_.end()) return NoRoute(*request);
  *route = &*found;
  const HttpBody& body = found->body;
  if (body.admit) {
    if (const Status admitted = body.admit(*request); !admitted) {
      return Problem(admitted.error());
    }
  }
  if (body.types.empty()) return std::nullopt;
  const std::string type = TypeIn(Text(head[http::field::content_type]));
  if (std::ranges::find(body.types, type) == body.types.end()) {
    return Invalid(fmt::format("Content-Type is '{}'; {} is accepted",
                               Excerpt(type), fmt::join(body.types, " or ")),
                   415);
  }
  const std::string_view length = Text(head[http::field::content_length]);
  const auto bytes = ParseInteger(length.empty() ? "0" : length, 0,
                                  static_cast<std::int64_t>(body.max_bytes));
  if (!bytes) return TooLong(body.max_bytes, request->path);
  return std::nullopt;
}

HttpResponse HttpServer::Server::NoRoute(const HttpRequest& request) const {
  std::vector<std::string> methods;
  std::vector<std::string> parts;
  for (const Known& known : routes_) {
    if (!MatchPath(known.route.path, request.path, &parts)) continue;
    if (std::ranges::find(methods, known.route.method) == methods.end()) {
      methods.push_back(known.route.method);
    }
  }
  if (methods.empty()) {
    return Problem(
        {Code::kNotFound, fmt::format("there is no {} {}", request.method,
                                      Excerpt(request.path, 200))});
  }
  HttpResponse refused =
      Problem({Code::kUnimplemented,
               fmt::format("{} is not accepted here; {} is", request.method,
                           fmt::join(methods, " or "))},
              405);
  refused.headers.emplace_back("Allow",
                               fmt::format("{}", fmt::join(methods, ", ")));
  return refused;
}

HttpServer::HttpServer(std::size_t max_connections, const Guard& guard)
    : server_(std::make_shared<Server>(max_connections, guard)) {}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Route(const std::string& method, const std::string& path,
                       HttpHandler handler, HttpBody body) {
  server_->Add({{method, path}, std::move(handler), std::move(body)});
}

void HttpServer::Get(const std::string& path,
                     std::function<HttpResponse(const HttpRequest&)> handler) {
  Route("GET", path,
        [handler = std::move(handler)](const auto& request,
                                       const HttpReply& reply) {
          reply(handler(*request));
        });
}

Status HttpServer::Listen(const std::string& address) {
  return server_->Listen(address);
}
int HttpServer::port() const { return server_->port(); }
std::vector<HttpRoute> HttpServer::routes() const { return server_->routes(); }
void HttpServer::Stop() { server_->Stop(); }

}  // namespace ucudnn
