#ifndef UCUDNN_COORDINATOR_REST_PROBLEM_H_
#define UCUDNN_COORDINATOR_REST_PROBLEM_H_

// Errors as HTTP tells them: problem details (RFC 9457).
//
//   {"type": "about:blank", "title": "Not Found", "status": 404,
//    "detail": "there is no job 'x'", "code": "NOT_FOUND"}

#include "base/result.h"
#include "coordinator/rest/http.h"

namespace ucudnn {

// The error's problem details; `code` is gRPC's name of the error's code.
// Without a `status`, with the one that fits the code.
HttpResponse Problem(const Error& error, int status = 0);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_PROBLEM_H_
