#include "base/device_kind.h"

#include <array>
#include <limits>

#include "base/text.h"

namespace ucudnn {

std::string ToString(const DeviceKind& kind) {
  return fmt::format("{}/{}u/{}/{}", kind.model, kind.units,
                     FormatBytes(kind.memory), kind.library);
}

Result<DeviceKind> ParseDeviceKind(std::string_view text) {
  // From the end, since only the model may contain a slash.
  std::string_view rest = text;
  std::array<std::string_view, 3> parts;  // library, memory, units
  bool complete = true;
  for (std::string_view& part : parts) {
    const std::size_t slash = rest.rfind('/');
    complete = complete && slash != std::string_view::npos;
    if (!complete) break;
    part = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
  }
  DeviceKind kind;
  if (complete && parts[2].ends_with('u')) {
    const Result<Bytes> memory = ParseBytes(parts[1]);
    const Result<std::int64_t> units =
        ParseInteger(parts[2].substr(0, parts[2].size() - 1), 0,
                     std::numeric_limits<std::int32_t>::max());
    if (memory && units) {
      kind = {std::string(rest), *units, *memory, std::string(parts[0])};
    }
  }
  if (kind.model.empty() || kind.library.empty() || ToString(kind) != text) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not a device kind; one looks like "
                "'NVIDIA H200/132u/139GiB/cudnn-9.19'",
                Excerpt(text, 200));
  }
  return kind;
}

}  // namespace ucudnn
