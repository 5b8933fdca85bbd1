#ifndef UCUDNN_CLIENT_DROPIN_WIRE_BYTE_STREAM_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_BYTE_STREAM_H_

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ucudnn {

using Deadline = std::chrono::steady_clock::time_point;

// A connection, whose calls all end by a deadline: kDeadlineExceeded.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Writes the whole text; raises no SIGPIPE.
  virtual Status Write(std::string_view text, Deadline deadline) = 0;
  // Appends received data, at least one byte. kUnavailable if the peer closed
  // the connection.
  virtual Status Read(std::string* into, Deadline deadline) = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_BYTE_STREAM_H_
