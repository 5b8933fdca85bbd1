#ifndef UCUDNN_TESTS_BENCH_SERVICE_UNARY_CALLS_H_
#define UCUDNN_TESTS_BENCH_SERVICE_UNARY_CALLS_H_

// Unary calls over gRPC on many connections, in one thread: a channel of gRPC's
// own takes so much that 10,000 of them on the coordinator's cores tell nothing
// of the coordinator. Of HTTP/2 (RFC 9113) and HPACK (RFC 7541) it has what
// such calls to gRPC's C++ server need. Left out: streams of messages,
// compression, Huffman codes and the dynamic table of headers, which it tells
// the server not to use, priorities, padding, and requests longer than a frame.
// Whatever it does not know ends the program.

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/security/openssl.h"

namespace ucudnn::test {

class UnaryCalls {
 public:
  using Clock = std::chrono::steady_clock;
  struct Answer {
    int status = 14;  // as gRPC numbers them; 14: no connection
    std::string message = {};
    std::string bytes = {};
  };
  using Done = std::function<void(const Answer&)>;
  using NewTls = std::function<SslPtr(std::size_t connection)>;

  // To 127.0.0.1:`port`; over TLS if `tls` makes what a connection needs.
  UnaryCalls(int port, std::size_t connections, NewTls tls);
  ~UnaryCalls();

  // Has `done` called with the answer, or with a failure after the 10 s that
  // agents wait. Connects if need be, once a second at most.
  void Start(std::size_t connection, std::string_view path,
             const std::string& request, Done done);
  // Takes what comes until `end`; earlier if something came.
  void Serve(Clock::time_point end);

 private:
  struct Stream {
    Done done;
    Answer answer;
  };
  enum class State { kClosed, kConnecting, kShakingHands, kOpen };
  struct Connection {
    State state = State::kClosed;
    int socket = -1;
    SslPtr tls = nullptr;
    std::string in = {};
    std::string out = {};
    std::uint32_t next = 1;   // stream
    std::int64_t window = 0;  // bytes that the server still takes
    std::uint32_t taken = 0;  // bytes that it was not told of
    std::map<std::uint32_t, Stream> streams = {};
    Clock::time_point tried = {};
  };
  struct Overdue {
    Clock::time_point when;
    std::size_t connection;
    std::uint32_t stream;
    Clock::time_point tried;  // which connection of that place
  };

  void Connect(std::size_t i);
  // Ends the connection, and its calls as unavailable.
  void Close(Connection& connection, const std::string& why);
  void End(Connection& connection, std::uint32_t stream, int status,
           const std::string& message);
  void Progress(std::size_t i, std::uint32_t events);
  bool Flush(Connection& connection);
  bool Receive(Connection& connection);
  // Whether the connection goes on.
  bool TakeFrames(Connection& connection);
  bool TakeFrame(Connection& connection, unsigned type, unsigned flags,
                 std::uint32_t stream, std::string_view payload);
  void EndOverdue();

  const int port_;
  const std::string authority_;
  const NewTls tls_;
  const int epoll_;
  std::vector<Connection> connections_;
  std::deque<Overdue> overdue_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_BENCH_SERVICE_UNARY_CALLS_H_
