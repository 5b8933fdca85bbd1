#ifndef UCUDNN_BASE_NAMES_H_
#define UCUDNN_BASE_NAMES_H_

// Names of things, and of the values of enumerations.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text.h"

namespace ucudnn {

// The one of `values` whose Name is `text`. kInvalidArgument, listing the
// names:
// "'x' is not a layout; one of NCHW, NHWC is accepted".
template <class T, std::size_t n>
Result<T> ParseName(std::string_view text, const std::array<T, n>& values,
                    std::string_view what) {
  std::string accepted;
  for (const T value : values) {
    if (Name(value) == text) return value;
    accepted += accepted.empty() ? "" : ", ";
    accepted += Name(value);
  }
  return Fail(Code::kInvalidArgument, "'{}' is not {}; one of {} is accepted",
              Excerpt(text), what, accepted);
}

// `text`, which may not be empty and must be plain (base/text.h).
// kInvalidArgument otherwise.
Result<std::string> ParsePlainName(std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_NAMES_H_
