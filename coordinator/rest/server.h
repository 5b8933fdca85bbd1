#ifndef UCUDNN_COORDINATOR_REST_SERVER_H_
#define UCUDNN_COORDINATOR_REST_SERVER_H_

// The coordinator over HTTP: calls and messages of gRPC, as JSON, on the routes
// of calls.h.
//
// openapi.json describes each call; it is served too. GET / is the page
// (page.h).
//
// A list goes on after its last entry (?after=) until a page is empty; a page
// may hold fewer entries than asked for, so that no answer gets too long.
// Ranges are refused; what an answer would exceed, limits.h tells.
//
// Plans and networks have tags, so that a client need not fetch them again
// (etag.h). Errors are problem details (problem.h), with status 422 if no plan
// satisfies the constraints.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace ucudnn {

class Dispatcher;
class Health;
struct HttpRoute;
struct Page;

class RestServer {
 public:
  // Listens on `address` ("host:port", port 0 for any free one).
  static Result<std::unique_ptr<RestServer>> Start(const std::string& address,
                                                   Dispatcher& dispatcher,
                                                   const Health& health,
                                                   const Page& page);
  // The same with /livez, /readyz and /metrics only, so that clients of the
  // others cannot hold these up.
  static Result<std::unique_ptr<RestServer>> StartProbes(
      const std::string& address, Dispatcher& dispatcher, const Health& health);
  virtual ~RestServer() = default;
  virtual int port() const = 0;
  // What it answers.
  virtual std::vector<HttpRoute> routes() const = 0;
  virtual void Stop() = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_SERVER_H_
