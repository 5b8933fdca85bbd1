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

// Empty: none.
std::string_view Scheme(std::string_view entry) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (entry.starts_with(scheme)) return scheme;
  }
  return {};
}

Result<std::vector<std::string>> Split(std::string_view text, bool rest) {
  std::vector<std::string> endpoints;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = Trim(text.substr(0, comma));
    if (!IsHostAndPort(part.substr(rest ? Scheme(part).size() : 0))) {
      return Fail(Code::kInvalidArgument,
                  "'{}' is given; host:port,... such as localhost:7460{} is "
                  "accepted",
                  part, rest ? " or http://localhost:7461" : "");
    }
    endpoints.emplace_back(part);
    if (comma == std::string_view::npos) return endpoints;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<std::vector<std::string>> ParseCoordinators(std::string_view text,
                                                   std::string_view source) {
  auto endpoints = Split(text, /*rest=*/false);
  if (!endpoints) return Within(source, std::move(endpoints).error());
  return endpoints;
}

Result<std::string> CheckCoordinators(const std::string& text) {
  UCUDNN_RETURN_IF_ERROR(Split(text, /*rest=*/false));
  return text;
}

Result<std::vector<std::string>> ParseRestCoordinators(
    const std::string& text) {
  return Split(text, /*rest=*/true);
}

Result<std::string> RestAddress(std::string_view coordinator) {
  constexpr std::string_view kGrpcPort = ":7460";
  if (const std::size_t scheme = Scheme(coordinator).size(); scheme > 0) {
    return std::string(coordinator.substr(scheme));
  }
  if (!coordinator.ends_with(kGrpcPort)) {
    return Fail(Code::kInvalidArgument,
                "that is a port for gRPC, and REST is asked; "
                "http://host:port, as the coordinator's --http, or port 7460, "
                "beside which it is 7461, is accepted in UCUDNN_COORDINATOR");
  }
  coordinator.remove_suffix(kGrpcPort.size());
  return std::string(coordinator) + ":7461";
}

}  // namespace ucudnn
