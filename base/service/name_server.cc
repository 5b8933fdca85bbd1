#include "base/service/name_server.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <future>
#include <memory>
#include <thread>

namespace ucudnn {

bool IsHostName(const std::string& host) {
  in6_addr address{};
  return host.find_first_of("/@") != 0 &&
         inet_pton(AF_INET, host.c_str(), &address) != 1 &&
         inet_pton(AF_INET6, host.c_str(), &address) != 1;
}

Status AwaitNameServer(const std::vector<std::string>& names,
                       std::chrono::seconds most) {
  auto answered = std::make_shared<std::promise<void>>();
  const std::future<void> answer = answered->get_future();
  std::thread([answered, names] {
    for (const std::string& name : names) {
      addrinfo* found = nullptr;
      const int failed = getaddrinfo(name.c_str(), nullptr, nullptr, &found);
      if (failed == 0) freeaddrinfo(found);
      if (failed != EAI_AGAIN) break;
    }
    answered->set_value();
  }).detach();
  if (answer.wait_for(most) == std::future_status::ready) return {};
  return Fail(Code::kUnavailable, "no name server answers within {} s",
              most.count());
}

}  // namespace ucudnn
