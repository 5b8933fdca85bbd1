#ifndef UCUDNN_COORDINATOR_REST_HOST_CHECK_H_
#define UCUDNN_COORDINATOR_REST_HOST_CHECK_H_

// Whether a request is meant for us: its Host, and the Origin of the page that
// had a browser send it.

#include <string_view>

namespace ucudnn {

// Whether no domain of a stranger can be called so: an address, a name without
// a dot or under a suffix that nobody can register, or `own`, the host on
// which we listen. `host` may have a port.
//
// Browsers let a page read from its own origin. A stranger whose domain comes
// to mean our address (DNS rebinding) would read all that we serve.
bool IsHostOfOurs(std::string_view host, std::string_view own);

// Whether `origin` ("https://coord-1:7461") is the server at `host`.
bool IsOriginOf(std::string_view origin, std::string_view host);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_HOST_CHECK_H_
