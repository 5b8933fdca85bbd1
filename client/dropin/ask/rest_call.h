#ifndef UCUDNN_CLIENT_DROPIN_ASK_REST_CALL_H_
#define UCUDNN_CLIENT_DROPIN_ASK_REST_CALL_H_

#include <chrono>
#include <string>

#include "base/result.h"
#include "base/service/credentials.h"
#include "client/dropin/ask/curl.h"

namespace ucudnn {

using Deadline = std::chrono::steady_clock::time_point;

struct RestCall {
  std::string address;  // host:port
  std::string path;     // escaped
  CredentialFiles credentials = {};  // with an authority's: over TLS
  std::string token = {};            // what `credentials.token` holds
  Deadline deadline;
};

// The body of the answer to GET, of at most 16 MiB. Reads files and looks up
// names, which may take longer than the deadline.
//
// kUnauthenticated and kPermissionDenied: the coordinator does not take what is
// shown; kInvalidArgument: libcurl does not take a file; kFailedPrecondition:
// TLS fails, or no REST answers there; kDeadlineExceeded; kUnavailable for any
// other reason.
Result<std::string> GetOverRest(const Curl& curl, const RestCall& call);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_ASK_REST_CALL_H_
