#ifndef UCUDNN_COORDINATOR_REST_HTTP_SERVER_H_
#define UCUDNN_COORDINATOR_REST_HTTP_SERVER_H_

// An HTTP server that no client can hold up, by Boost.Beast: with a bounded
// number of connections and bytes of bodies, and deadlines for whole requests
// and answers. Whatever a proxy in front of us could read in another way (RFC
// 9112, sections 6 and 11) is refused, and so are requests of other sites'
// pages: browsers store tokens, and send them with those too.
//
//   HttpServer http(kMaxHttpConnections, dispatcher.guard());
//   http.Get("/livez", [](const HttpRequest&) { ... });
//   UCUDNN_RETURN_IF_ERROR(http.Listen("127.0.0.1:0"));

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/rest/http.h"

namespace ucudnn {

struct HttpRoute {
  std::string method;
  std::string path;  // as MatchPath takes it
};

// What a route takes of a request's body; nothing by default.
struct HttpBody {
  std::size_t max_bytes = 0;
  std::vector<std::string> types;  // accepted as Content-Type
  // Asked before the body is read; refuses with its error.
  std::function<Status(const HttpRequest&)> admit = {};
};

class HttpServer {
 public:
  // With more than `max_connections` at once, or half of them of one address,
  // that which has kept us waiting longest is closed: for a request's head, or
  // if none does, longer than kHttpCrowded for its client to send or read. If
  // there is none, the new one is answered 503, or over TLS closed.
  // Over TLS if the guard has files for that.
  HttpServer(std::size_t max_connections, const Guard& guard);
  ~HttpServer();

  // Answers `method` (GET, PUT, POST or DELETE) on the paths that match; of
  // several routes that with the longest text. A request for such a path with
  // another method is answered 405; one with a body of another type than `body`
  // has, 415; one with a longer body, 413, and none of these bodies is read.
  // Call it before Listen.
  void Route(const std::string& method, const std::string& path,
             HttpHandler handler, HttpBody body = {});
  // For what can be answered at once.
  void Get(const std::string& path,
           std::function<HttpResponse(const HttpRequest&)> handler);

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
  class Session;
  const std::shared_ptr<Server> server_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_HTTP_SERVER_H_
