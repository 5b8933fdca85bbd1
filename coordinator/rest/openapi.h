#ifndef UCUDNN_COORDINATOR_REST_OPENAPI_H_
#define UCUDNN_COORDINATOR_REST_OPENAPI_H_

#include <string_view>

namespace ucudnn {

// openapi.json, compiled in: what REST offers.
std::string_view OpenApiText();

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_OPENAPI_H_
