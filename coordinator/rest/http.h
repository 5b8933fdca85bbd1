#ifndef UCUDNN_COORDINATOR_REST_HTTP_H_
#define UCUDNN_COORDINATOR_REST_HTTP_H_

// Requests and answers of HTTP, as handlers see them (http_server.h).

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "coordinator/security/guard.h"

namespace ucudnn {

struct HttpRequest {
  std::string method;
  std::string path;  // decoded, without the query
  std::vector<std::string>
      matches;  // what the {} of the route's path stand for
  std::vector<std::pair<std::string, std::string>> query;  // decoded
  std::string body;
  Peer peer;
  std::string if_none_match;  // the header's value
};

struct HttpResponse {
  // Takes the next piece of a body; empty: it has ended. With an error the
  // connection breaks off.
  using Give = std::function<void(Result<std::string> piece)>;

  int status = 200;
  std::string type;  // Content-Type
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // If set, more than `body` follows: asked for each piece.
  std::function<void(Give give)> next;
};

// Takes the answer, once, on whichever thread.
using HttpReply = std::function<void(HttpResponse response)>;
// Called on the server's only thread, so it must not wait for anything.
using HttpHandler = std::function<void(
    const std::shared_ptr<const HttpRequest>& request, HttpReply reply)>;

// The parts of `path`, where `pattern` ("/v1/jobs/{id}/ranks/{rank}") has {};
// the first take as much as they can, and each something. False if the path is
// another.
bool MatchPath(std::string_view pattern, std::string_view path,
               std::vector<std::string>* parts);

// "%2F" as "/"; what is no such escape stays.
std::string DecodePercent(std::string_view text, bool plus_is_blank);

// The parameters of "a=1&b=", decoded, in their order.
std::vector<std::pair<std::string, std::string>> ParseQuery(
    std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_HTTP_H_
