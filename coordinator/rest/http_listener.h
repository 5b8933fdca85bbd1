#ifndef UCUDNN_COORDINATOR_REST_HTTP_LISTENER_H_
#define UCUDNN_COORDINATOR_REST_HTTP_LISTENER_H_

// An HTTP server that no client can hold up: httplib's, with a bounded number
// of connections and bytes of bodies, deadlines for whole requests, and a
// listener that is set up again if it breaks. Before httplib sees a request,
// its head is read strictly (http_head.h), and requests of other sites' pages
// are refused: browsers store tokens, and send them with those too.
//
//   HttpListener http(kMaxHttpConnections, dispatcher.guard());
//   http.Route("GET", "/v1/plans/(.+)", [](const auto& request, auto* response)
//              { ... });
//   UCUDNN_RETURN_IF_ERROR(http.Listen("127.0.0.1:0"));

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace ucudnn {

class Guard;

struct HttpRoute {
  std::string method;
  std::string pattern;  // a regular expression
};

// What a route takes of a request's body.
struct HttpBody {
  std::size_t max_bytes = 0;
  std::vector<std::string> types;  // accepted as Content-Type
  // Asked before the body is read; refuses with its error.
  std::function<Status(const httplib::Request&)> admit;
};

class HttpListener {
 public:
  // `request.body` holds the body of PUT and POST, whatever its encoding.
  using Handler =
      std::function<void(const httplib::Request&, httplib::Response*)>;

  // With more than `max_connections` at once, or half of them of one address,
  // those that keep us waiting are closed (http_places.h); if none does, a new
  // one is answered 503, or over TLS closed.
  // Over TLS if the guard has files for that.
  HttpListener(std::size_t max_connections, const Guard& guard);
  ~HttpListener();

  // In a handler: the certificate (PEM) that its client showed and TLS
  // verified; empty if there is none.
  static const std::string& ClientCertificate();

  // Answers `method` (GET, PUT, POST or DELETE) on the paths that match the
  // regular expression. A request for such a path with another method is
  // answered 405; one with a body of another type than `body` has, 415; one
  // with a longer body, 413, and none of these bodies is read. Call it before
  // Listen.
  void Route(const std::string& method, const std::string& pattern,
             Handler handler, HttpBody body = {});

  // Listens on `address` ("host:port", port 0 for any free one) and answers in
  // threads of its own. kInvalidArgument; kUnavailable if it cannot.
  Status Listen(const std::string& address);
  int port() const;
  std::vector<HttpRoute> routes() const;
  // Ends idle connections and unfinished requests at once and lets answers
  // finish, for up to 2 s while their clients read.
  void Stop();

 private:
  class Server;
  struct Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_HTTP_LISTENER_H_
