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

Endpoint SplitEndpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
  }
  return {std::string(host), std::string(text.substr(colon + 1))};
}

std::vector<std::string> ListenAddresses(const std::string& host_and_port) {
  const Endpoint endpoint = SplitEndpoint(host_and_port);
  if (endpoint.host != "0.0.0.0" && endpoint.host != "::") {
    return {host_and_port};
  }
  return {"[::]:" + endpoint.port, "0.0.0.0:" + endpoint.port};
}

bool IsLoopback(std::string_view host_and_port) {
  const std::string_view host =
      host_and_port.substr(0, host_and_port.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  const bool numeric =
      host.find_first_not_of("0123456789.") == std::string_view::npos;
  return numeric && host.starts_with("127.");
}

}  // namespace ucudnn
