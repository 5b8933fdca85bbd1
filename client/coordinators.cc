#include "client/coordinators.h"

#include "base/units.h"

namespace ucudnn {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool IsHostAndPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = text.substr(0, colon);
  if (!ParseInteger(text.substr(colon + 1), 1, 65535)) return false;
  if (host.front() == '[') return host.size() > 2 && host.back() == ']';
  return host.find_first_of(":/[] \t\n") == std::string_view::npos;
}

}  // namespace

Result<std::vector<std::string>> ParseCoordinators(std::string_view text,
                                                   std::string_view source) {
  std::vector<std::string> endpoints;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = Trim(text.substr(0, comma));
    if (!IsHostAndPort(part)) {
      return Fail(Code::kInvalidArgument,
                  "{}: '{}' is given; host:port,... such as "
                  "localhost:7460 is accepted",
                  source, part);
    }
    endpoints.emplace_back(part);
    if (comma == std::string_view::npos) return endpoints;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace ucudnn
