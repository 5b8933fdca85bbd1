#ifndef UCUDNN_CLIENT_DROPIN_WIRE_TCP_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_TCP_H_

// A TCP connection whose calls all end by a deadline, including name
// resolution.

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/service/address.h"
#include "client/dropin/wire/byte_stream.h"

namespace ucudnn {

class TcpConnection final : public ByteStream {
 public:
  // kUnavailable, with the system's reason; kDeadlineExceeded.
  //
  // A host name is resolved on a thread of its own, because resolution cannot
  // be interrupted: if it takes too long, the thread is left behind.
  static Result<TcpConnection> Open(const Endpoint& endpoint,
                                    Deadline deadline);
  TcpConnection(TcpConnection&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  TcpConnection& operator=(TcpConnection&&) = delete;
  ~TcpConnection() override;

  Status Write(std::string_view text, Deadline deadline) override;
  Status Read(std::string* into, Deadline deadline) override;

 private:
  explicit TcpConnection(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_TCP_H_
