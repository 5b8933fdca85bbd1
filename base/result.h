#ifndef UCUDNN_BASE_RESULT_H_
#define UCUDNN_BASE_RESULT_H_

// Errors are values. A function that can fail returns Result<T>, or Status
// where there is nothing to return:
//
//   Result<Bytes> ParseBytes(std::string_view text);
//
//   UCUDNN_ASSIGN_OR_RETURN(const Bytes limit, ParseBytes(flag));
//
// Our code never throws; adapters catch what libraries throw and translate it
// at once. A broken invariant aborts (UCUDNN_CHECK).

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace ucudnn {

// Numbered as gRPC's status codes, so that crossing the wire is a cast.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,           // the caller asked to stop
  kUnknown = 2,             // a library failed without saying why
  kInvalidArgument = 3,     // the request is malformed, whatever the state
  kDeadlineExceeded = 4,    // time ran out; the outcome is not known
  kNotFound = 5,            // what was named does not exist
  kAlreadyExists = 6,       // it exists already, with other content
  kPermissionDenied = 7,    // the caller is not allowed to
  kResourceExhausted = 8,   // memory, disk or quota ran out
  kFailedPrecondition = 9,  // no plan satisfies the constraints; never retried
  kAborted = 10,            // a concurrent change won; read again and retry
  kOutOfRange = 11,         // a number that cannot be represented
  kUnimplemented = 12,      // not supported by this build or device
  kInternal = 13,           // a bug of ours
  kUnavailable = 14,        // the service cannot be reached now; retry later
  kDataLoss = 15,           // stored data cannot be read back
  kUnauthenticated = 16,    // the caller has no valid credentials
};

// The code's name as gRPC spells it, e.g. "INVALID_ARGUMENT".
std::string_view CodeName(Code code);

struct Error {
  Code code = Code::kUnknown;
  std::string message;
  // Of kFailedPrecondition: the least that would do of what was limited (bytes
  // of workspace, of a budget, of a pool); absent if it is not known.
  std::optional<std::int64_t> least = {};

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// The failure of the enclosing function:
//   return Fail(Code::kInvalidArgument, "--batch: {} is not positive", n);
template <class... Args>
tl::unexpected<Error> Fail(Code code, fmt::format_string<Args...> format,
                           Args&&... args) {
  return tl::unexpected<Error>(
      Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// kFailedPrecondition where a limit is too low and `least` would do.
template <class... Args>
tl::unexpected<Error> FailBelow(std::int64_t least,
                                fmt::format_string<Args...> format,
                                Args&&... args) {
  return tl::unexpected<Error>(
      Error{Code::kFailedPrecondition,
            fmt::format(format, std::forward<Args>(args)...), least});
}

// The same failure seen from one level up: `context` says where it happened.
inline tl::unexpected<Error> Within(std::string_view context, Error error) {
  error.message = fmt::format("{}: {}", context, error.message);
  return tl::unexpected<Error>(std::move(error));
}

// kInvalidArgument unless `value` is from `least` to `most`.
Status InRange(std::string_view name, std::int64_t value, std::int64_t least,
               std::int64_t most);

[[noreturn]] void CheckFailed(const char* condition, const char* file,
                              int line);

}  // namespace ucudnn

#define UCUDNN_CONCAT_INNER_(a, b) a##b
#define UCUDNN_CONCAT_(a, b) UCUDNN_CONCAT_INNER_(a, b)

// Evaluates `expression`, a Result or Status; returns its error, if any.
#define UCUDNN_RETURN_IF_ERROR(expression)                                \
  do {                                                                    \
    if (auto status_ = (expression); !status_) {                          \
      return tl::unexpected<::ucudnn::Error>(std::move(status_).error()); \
    }                                                                     \
  } while (false)

// Declares `declaration` from the value of `expression`, or returns its error.
#define UCUDNN_ASSIGN_OR_RETURN(declaration, ...)              \
  auto UCUDNN_CONCAT_(result_, __LINE__) = (__VA_ARGS__);      \
  if (!UCUDNN_CONCAT_(result_, __LINE__)) {                    \
    return tl::unexpected<::ucudnn::Error>(                    \
        std::move(UCUDNN_CONCAT_(result_, __LINE__)).error()); \
  }                                                            \
  declaration = *std::move(UCUDNN_CONCAT_(result_, __LINE__))

// Aborts, naming the place, when an invariant of ours is broken.
#define UCUDNN_CHECK(condition)                              \
  do {                                                       \
    if (!(condition)) [[unlikely]] {                         \
      ::ucudnn::CheckFailed(#condition, __FILE__, __LINE__); \
    }                                                        \
  } while (false)

#endif  // UCUDNN_BASE_RESULT_H_
