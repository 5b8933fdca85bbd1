#include "coordinator/rest/host_check.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string>

namespace ucudnn {
namespace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

bool IsHostOfOurs(std::string_view host, std::string_view own) {
  if (host.starts_with('[')) {  // IPv6
    const std::size_t end = host.find(']');
    return end != std::string_view::npos &&
           (end + 1 == host.size() || host[end + 1] == ':');
  }
  std::string name = LowerCase(host.substr(0, host.find(':')));
  if (name.ends_with('.')) name.pop_back();
  in_addr address{};
  if (name.find('.') == std::string::npos || name == LowerCase(own) ||
      inet_pton(AF_INET, name.c_str(), &address) == 1) {
    return true;
  }
  constexpr auto kUnregistrable = std::to_array<std::string_view>(
      {".localhost", ".local", ".internal", ".home.arpa", ".test", ".svc"});
  return std::ranges::any_of(kUnregistrable, [&](std::string_view suffix) {
    return name.ends_with(suffix);
  });
}

bool IsOriginOf(std::string_view origin, std::string_view host) {
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos &&
         LowerCase(origin.substr(scheme + 3)) == LowerCase(host);
}

}  // namespace ucudnn
