#ifndef UCUDNN_COORDINATOR_REST_HTTP_HEAD_H_
#define UCUDNN_COORDINATOR_REST_HTTP_HEAD_H_

// The line and the header fields of an HTTP request, read strictly: whatever a
// proxy in front of us could read in another way (RFC 9112, sections 6 and 11)
// is refused before httplib, which is lenient, sees it.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ucudnn {

// Without blanks at either end.
std::string_view Trimmed(std::string_view text);

struct HttpHead {
  std::string method;
  std::string host;  // as sent, with the port; empty with HTTP/1.0
  // Of the page that had a browser send this; empty: none.
  std::string origin;
  // Without parameters, in lower case; empty if absent.
  std::string content_type;
  std::size_t content_length = 0;  // bytes
};

// `text` ends with the empty line. kInvalidArgument, naming the line, if it is
// not HTTP/1.1 or 1.0 as RFC 9112 has it, has Transfer-Encoding or more than
// one Host or Content-Length, or a body where none is accepted.
Result<HttpHead> ParseHttpHead(std::string_view text);

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

#endif  // UCUDNN_COORDINATOR_REST_HTTP_HEAD_H_
