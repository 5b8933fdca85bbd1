#include "agent/identity.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>

namespace ucudnn {
namespace {

// A name in the abstract socket namespace, short enough for any id.
std::string SocketName(const std::string& id, const std::string& coordinators) {
  return fmt::format("ucudnn-agent-{:016x}-{:016x}",
                     std::hash<std::string>{}(id),
                     std::hash<std::string>{}(coordinators));
}

// A socket bound to that name; -1 if another process has it.
Result<int> Bind(const std::string& name) {
  const int made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (made < 0) {
    return Fail(Code::kInternal, "no socket for the agent's id: {}",
                std::strerror(errno));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(made, reinterpret_cast<const sockaddr*>(&address), length) == 0) {
    return made;
  }
  const int why = errno;
  close(made);
  if (why == EADDRINUSE) return -1;
  return Fail(Code::kInternal, "the agent's id cannot be taken: {}",
              std::strerror(why));
}

}  // namespace

Result<Identity> Identity::Take(const std::string& id, bool suggestion,
                                const std::string& coordinators) {
  constexpr int kMostOfAHost = 1024;
  for (int n = 1; n <= (suggestion ? kMostOfAHost : 1); ++n) {
    std::string name = n == 1 ? id : fmt::format("{}-{}", id, n);
    UCUDNN_ASSIGN_OR_RETURN(const int socket,
                            Bind(SocketName(name, coordinators)));
    if (socket >= 0) return Identity(std::move(name), socket);
  }
  return Fail(Code::kFailedPrecondition,
              "an agent '{}' on this host already works for {}; give this one "
              "another --id",
              id, coordinators);
}

Identity::~Identity() {
  if (socket_ >= 0) close(socket_);
}

}  // namespace ucudnn
