#ifndef UCUDNN_COORDINATOR_REST_ETAG_H_
#define UCUDNN_COORDINATOR_REST_ETAG_H_

// Answers that a client may have already (RFC 9110, 8.8 and 13.1.2).

#include <string>
#include <string_view>

#include "coordinator/rest/http.h"

namespace ucudnn {

// Whether `header`, the value of If-None-Match, names the tag, weakly compared.
bool NamesTag(std::string_view header, std::string_view tag);

// Gives the answer the tag "`hash`"; if the request names it, the answer
// becomes 304 without a body.
void SetTag(const HttpRequest& request, const std::string& hash,
            HttpResponse* response);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_ETAG_H_
