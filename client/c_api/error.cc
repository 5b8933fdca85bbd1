#include "client/c_api/error.h"

#include "ucudnn/ucudnn.h"

namespace ucudnn::c_api {

Error& ThreadError() {
  thread_local Error error;
  return error;
}

}  // namespace ucudnn::c_api

using ucudnn::Code;

// The C interface uses the same numbers as Code.
static_assert(UCUDNN_INVALID_ARGUMENT ==
              static_cast<int>(Code::kInvalidArgument));
static_assert(UCUDNN_DEADLINE_EXCEEDED ==
              static_cast<int>(Code::kDeadlineExceeded));
static_assert(UCUDNN_FAILED_PRECONDITION ==
              static_cast<int>(Code::kFailedPrecondition));
static_assert(UCUDNN_UNAVAILABLE == static_cast<int>(Code::kUnavailable));
static_assert(UCUDNN_UNAUTHENTICATED ==
              static_cast<int>(Code::kUnauthenticated));

const char* ucudnn_version(void) { return UCUDNN_VERSION; }

const char* ucudnn_strerror(int status) {
  switch (status) {
    case UCUDNN_OK:
      return "OK";
    case UCUDNN_CANCELLED:
      return "CANCELLED: the caller asked to stop";
    case UCUDNN_UNKNOWN:
      return "UNKNOWN: a library failed without saying why";
    case UCUDNN_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT: an argument is malformed";
    case UCUDNN_DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED: time ran out; a rank is lost or late";
    case UCUDNN_NOT_FOUND:
      return "NOT_FOUND: the named object does not exist";
    case UCUDNN_ALREADY_EXISTS:
      return "ALREADY_EXISTS: it exists already, with other contents";
    case UCUDNN_PERMISSION_DENIED:
      return "PERMISSION_DENIED: the caller lacks permission";
    case UCUDNN_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED: memory, disk or quota ran out";
    case UCUDNN_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION: no plan satisfies the constraints, or the "
             "state does not allow it";
    case UCUDNN_ABORTED:
      return "ABORTED: a concurrent change won; try again";
    case UCUDNN_OUT_OF_RANGE:
      return "OUT_OF_RANGE: an index or a number is out of range";
    case UCUDNN_UNIMPLEMENTED:
      return "UNIMPLEMENTED: not supported by this build or device";
    case UCUDNN_INTERNAL:
      return "INTERNAL: a bug in ucudnn";
    case UCUDNN_UNAVAILABLE:
      return "UNAVAILABLE: MPI or a service is unavailable";
    case UCUDNN_DATA_LOSS:
      return "DATA_LOSS: stored data cannot be read back";
    case UCUDNN_UNAUTHENTICATED:
      return "UNAUTHENTICATED: the caller presented no valid identity";
    default:
      return "not a ucudnn status";
  }
}
