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

#include "coordinator/rest/http_places.h"
#include "coordinator/security/openssl.h"

namespace ucudnn {

class HttpConnection final : public httplib::Stream {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `stopping` tells when the server stops; `tls`, if not null, encrypts. The
  // socket has one of the `places`; it is not closed.
  HttpConnection(socket_t socket, HttpPlaces& places,
                 std::function<bool()> stopping, SSL_CTX* tls);

  // Waits for the head of the next request; false if it does not come in time,
  // or if the last request was not read or answered to its end.
  bool AwaitHead();
  // Of the request that comes next, with the empty line at its end; without it
  // if it is longer than kMaxHttpHeadBytes.
  const std::string& head() const { return head_; }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  // -1 when the client takes too long, or the server stops. Begins with the
  // head.
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
  enum class Phase { kIdle, kHead, kReading, kWriting };

  // Enters the phase, and counts its time from now on if it is another one.
  void Enter(Phase phase);
  // How long the client may take for the phase.
  std::chrono::milliseconds Patience() const;
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
  HttpPlaces& places_;
  const std::function<bool()> stopping_;
  bool broken_ = false;  // a read or write failed
  bool shaken_ = false;  // keys are agreed on
  Phase phase_ = Phase::kIdle;
  Time started_ = std::chrono::steady_clock::now();  // the phase
  std::size_t moved_ = 0;                            // bytes in this phase
  std::string head_;
  std::size_t read_ = 0;  // bytes of the head
  std::array<char, 16 << 10> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REST_HTTP_CONNECTION_H_
