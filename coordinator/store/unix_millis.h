#ifndef UCUDNN_COORDINATOR_STORE_UNIX_MILLIS_H_
#define UCUDNN_COORDINATOR_STORE_UNIX_MILLIS_H_

#include <cstdint>

namespace ucudnn {

// Milliseconds since 1970 (UTC).
using UnixMillis = std::int64_t;

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_UNIX_MILLIS_H_
