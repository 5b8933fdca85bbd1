#ifndef UCUDNN_CLIENT_C_API_ERROR_H_
#define UCUDNN_CLIENT_C_API_ERROR_H_

// Turns results into statuses of the C interface. No function lets an exception
// escape.

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/result.h"

namespace ucudnn::c_api {

// The last error of ucudnn_last_error_message(NULL) for this thread.
Error& ThreadError();

// Runs `body`, which returns a Status. Returns its code; on failure, stores its
// error in `last`.
template <class Body>
int Guard(Error& last, const Body& body) noexcept {
  Error error;
  try {
    const Status status = body();
    if (status) return 0;
    error = status.error();
  } catch (const std::bad_alloc&) {
    error.code = Code::kResourceExhausted;  // needs no allocation
    error.message = "out of memory";
  } catch (const std::exception& thrown) {
    error.code = Code::kInternal;
    try {
      error.message = thrown.what();
    } catch (...) {  // no memory for the text
    }
  }
  last = std::move(error);
  return static_cast<int>(last.code);
}

template <class Body>
int Guard(const Body& body) noexcept {
  return Guard(ThreadError(), body);
}

inline tl::unexpected<Error> IsNull(const char* what) {
  return Fail(Code::kInvalidArgument, "{} is null", what);
}

}  // namespace ucudnn::c_api

#endif  // UCUDNN_CLIENT_C_API_ERROR_H_
