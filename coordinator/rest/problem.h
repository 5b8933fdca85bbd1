#ifndef UCUDNN_COORDINATOR_REST_PROBLEM_H_
#define UCUDNN_COORDINATOR_REST_PROBLEM_H_

// Errors as HTTP tells them: problem details (RFC 9457).
//
//   {"type": "about:blank", "title": "Not Found", "status": 404,
//    "detail": "there is no job 'x'", "code": "NOT_FOUND"}

#include <string>

#include "base/result.h"

namespace httplib {
struct Response;
}  // namespace httplib

namespace ucudnn {

inline constexpr const char* kProblemType = "application/problem+json";

// `code` is gRPC's name of the error's code.
std::string ProblemText(const Error& error, int status);

// Answers with the error's problem details. Without a `status`, with the one
// that fits its code.
void ReplyError(const Error& error, httplib::Response* response,
                int status = 0);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_PROBLEM_H_
