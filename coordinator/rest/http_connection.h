#ifndef UCUDNN_COORDINATOR_REST_HTTP_CONNECTION_H_
#define UCUDNN_COORDINATOR_REST_HTTP_CONNECTION_H_

// One accepted connection as httplib reads and writes it, with deadlines for
// whole requests and answers; httplib's own end only a silence.

#include <httplib.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "coordinator/security/openssl.h"

namespace ucudnn {

class HttpConnection final : public httplib::Stream {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `stopping` tells when the server stops; `tls`, if not null, encrypts. Does
  // not close the socket.
  HttpConnection(socket_t socket, std::function<bool()> stopping, SSL_CTX* tls);

  // Waits for the first byte of the next request, from the second one on only
  // while `keep` holds; false if none comes within kHttpIdle, or if the last
  // request was not read or answered to its end.
  bool AwaitRequest(const std::function<bool()>& keep);

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  // -1 when the client takes too long, sends too long a head, or the server
  // stops.
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  // The client's certificate (PEM), which was verified; empty if it has none.
  const std::string& certificate() const { return certificate_; }
  // Tells a client over TLS that the answer is complete.
  void Close();
  // Without the ports, which nobody asks for.
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  enum class Phase { kIdle, kReading, kWriting };

  // Enters the phase, and counts its time from now on if it is another one.
  void Enter(Phase phase);
  // Waits until the socket has these events; false at the phase's deadline, or
  // when the server stops.
  bool Await(short events);
  // Agrees on keys; false if that fails.
  bool Shake();
  // Fills the buffer; false at the end.
  bool Fill();
  // Repeats what reads or writes until that succeeds (the number of bytes) or
  // fails (0 or less).
  ssize_t Move(short events, const std::function<ssize_t()>& move);

  const socket_t socket_;
  const SslPtr tls_;  // null: plaintext
  std::string certificate_;
  const std::function<bool()> stopping_;
  bool broken_ = false;  // a read or write failed
  bool served_ = false;  // a request
  Phase phase_ = Phase::kIdle;
  Time started_;           // the phase
  std::size_t moved_ = 0;  // bytes in this phase
  std::size_t in_head_ =
      0;  // of these, read byte by byte, as httplib reads lines
  std::array<char, 16 << 10> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_HTTP_CONNECTION_H_
