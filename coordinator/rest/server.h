#ifndef UCUDNN_COORDINATOR_REST_SERVER_H_
#define UCUDNN_COORDINATOR_REST_SERVER_H_

// The coordinator over HTTP: the calls and messages of gRPC, as JSON.
//
//   GET  /v1/agents|devices|networks|profiles|campaigns|plans|jobs
//                                 ?limit= &after= &kind=
//   GET  /v1/agents/{id} ... /v1/jobs/{id}
//   GET  /v1/plans/{id}/front     ?rank= &layer= &op=
//   GET  /v1/jobs/{id}/ranks/{rank}
//   PUT  /v1/networks/{name}      the body is the file, CSV or ONNX
//   POST /v1/plans                the body is a PlanRequest
//   POST /v1/measure              the body is a MeasureRequest
//   GET  /v1/status
//   GET  /livez /readyz /metrics
//   GET  /                        the page (page.h)
//
// A list goes on after its last entry (?after=) until a page is empty; a page
// may hold fewer entries than asked for, so that no answer gets too long.
// Ranges are refused; what an answer would exceed, limits.h tells.
//
// Errors are {"error":{"code":"NOT_FOUND","message":"..."}} with the HTTP
// status that fits; 422 if no plan satisfies the constraints.

#include <memory>
#include <string>

#include "base/result.h"

namespace ucudnn {

class Dispatcher;
class Health;
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
  virtual void Stop() = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_SERVER_H_
