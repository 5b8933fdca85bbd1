#ifndef UCUDNN_CLIENT_DROPIN_WIRE_TCP_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_TCP_H_

// A TCP connection whose calls all end by a deadline, including name
// resolution.

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace ucudnn {

using Deadline = std::chrono::steady_clock::time_point;

class TcpConnection {
 public:
  // Connects to "host:port", as ParseCoordinators
  // (client/config/coordinators.h) accepts it. kUnavailable, with the system's
  // reason; kDeadlineExceeded.
  //
  // A host name is resolved on a thread of its own, because resolution cannot
  // be interrupted: if it takes too long, the thread is left behind.
  static Result<TcpConnection> Open(std::string_view endpoint,
                                    Deadline deadline);
  TcpConnection(TcpConnection&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  TcpConnection& operator=(TcpConnection&&) = delete;
  ~TcpConnection();

  // Writes the whole text; raises no SIGPIPE.
  Status Write(std::string_view text, Deadline deadline);
  // Appends received data, at least one byte. kUnavailable if the peer closed
  // the connection.
  Status Read(std::string* into, Deadline deadline);

 private:
  explicit TcpConnection(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_TCP_H_
