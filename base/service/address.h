#ifndef UCUDNN_BASE_SERVICE_ADDRESS_H_
#define UCUDNN_BASE_SERVICE_ADDRESS_H_

#include <string>
#include <string_view>
#include <vector>

namespace ucudnn {

// Whether `text` is "host:port" with a port from `min_port` (0 if a server may
// take any free one); IPv6 addresses are written [::1]:7460.
bool IsHostAndPort(std::string_view text, int min_port = 1);

struct Endpoint {
  std::string host;  // of an IPv6 address, without brackets
  std::string port;
};

// The parts of what IsHostAndPort accepts.
Endpoint SplitEndpoint(std::string_view text);

// Where a server listens that is given such an address: the first that can be
// bound. All addresses, 0.0.0.0 and [::], are those of IPv6 and IPv4 together
// or, on a machine without IPv6, of IPv4.
std::vector<std::string> ListenAddresses(const std::string& host_and_port);

// Whether such an address is reached from its own host only: localhost,
// 127.0.0.0/8 or [::1].
bool IsLoopback(std::string_view host_and_port);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_ADDRESS_H_
