#include "base/service/address.h"

#include <cstddef>

#include "base/units.h"

namespace ucudnn {

bool IsHostAndPort(std::string_view text, int min_port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = text.substr(0, colon);
  if (!ParseInteger(text.substr(colon + 1), min_port, 65535)) return false;
  if (host.front() == '[') return host.size() > 2 && host.back() == ']';
  return host.find_first_of(":/[] \t\n") == std::string_view::npos;
}

}  // namespace ucudnn
