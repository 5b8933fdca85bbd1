#include "coordinator/rest/problem.h"

#include <nlohmann/json.hpp>

namespace ucudnn {
namespace {

int HttpStatus(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return 400;
    case Code::kUnauthenticated:
      return 401;
    case Code::kPermissionDenied:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kAlreadyExists:
    case Code::kAborted:
      return 409;
    case Code::kFailedPrecondition:
      return 422;
    case Code::kResourceExhausted:
      return 429;
    case Code::kUnimplemented:
      return 501;
    case Code::kUnavailable:
      return 503;
    case Code::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

// What the status means, for people.
std::string_view Title(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return status < 500 ? "Bad Request" : "Internal Server Error";
  }
}

}  // namespace

HttpResponse Problem(const Error& error, int status) {
  using Json = nlohmann::ordered_json;
  HttpResponse response;
  response.status = status == 0 ? HttpStatus(error.code) : status;
  if (error.code == Code::kUnavailable || error.code == Code::kAborted ||
      error.code == Code::kResourceExhausted) {
    response.headers.emplace_back("Retry-After", "1");
  }
  if (error.code == Code::kUnauthenticated) {
    // Lets browsers ask for a token, as a password; other clients ignore it.
    response.headers.emplace_back("WWW-Authenticate",
                                  "Basic realm=\"ucudnn token\"");
  }
  const Json body = {{"type", "about:blank"},
                     {"title", Title(response.status)},
                     {"status", response.status},
                     {"detail", error.message},
                     {"code", CodeName(error.code)}};
  response.type = "application/problem+json";
  response.body =
      body.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return response;
}

}  // namespace ucudnn
