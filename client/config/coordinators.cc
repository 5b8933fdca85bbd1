#include "client/config/coordinators.h"

#include <utility>

#include "base/service/address.h"

namespace ucudnn {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<std::vector<std::string>> Split(std::string_view text) {
  std::vector<std::string> endpoints;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = Trim(text.substr(0, comma));
    if (!IsHostAndPort(part)) {
      return Fail(Code::kInvalidArgument,
                  "'{}' is given; host:port,... such as localhost:7460 is "
                  "accepted",
                  part);
    }
    endpoints.emplace_back(part);
    if (comma == std::string_view::npos) return endpoints;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<std::vector<std::string>> ParseCoordinators(std::string_view text,
                                                   std::string_view source) {
  auto endpoints = Split(text);
  if (!endpoints) return Within(source, std::move(endpoints).error());
  return endpoints;
}

Result<std::string> CheckCoordinators(const std::string& text) {
  UCUDNN_RETURN_IF_ERROR(Split(text));
  return text;
}

}  // namespace ucudnn
