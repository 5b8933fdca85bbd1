#include "base/names.h"

namespace ucudnn {

Result<std::string> ParsePlainName(std::string_view text) {
  if (!text.empty() && IsPlainText(text)) return std::string(text);
  return Fail(Code::kInvalidArgument, "'{}' is not a name", Excerpt(text));
}

}  // namespace ucudnn
