#include "tests/bench/service/unary_calls.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/bench/service/served.h"

namespace ucudnn::test {
namespace {

constexpr std::chrono::seconds kPatience{10};  // as agents have
constexpr std::chrono::seconds kReconnect{1};
constexpr std::int64_t kFirstWindow = 65'535;
constexpr std::uint32_t kTellAfter = 16'384;
constexpr std::size_t kFrameHead = 9;
constexpr std::size_t kMessageHead = 5;  // gRPC's: compressed or not, length

enum : unsigned {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindow = 8,
  kContinuation = 9
};
enum : unsigned { kEndStream = 1, kAck = 1, kEndHeaders = 4, kPadded = 8 };

std::string Number(std::uint32_t value, int bytes = 4) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

std::uint32_t NumberIn(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::string Frame(unsigned type, unsigned flags, std::uint32_t stream,
                  std::string_view payload) {
  std::string frame = Number(static_cast<std::uint32_t>(payload.size()), 3);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  return (frame += Number(stream)) += payload;
}

// HPACK's integer and texts (RFC 7541, section 5), without Huffman codes.
void AddInteger(std::string* block, unsigned first, unsigned prefix,
                std::size_t value) {
  const std::size_t most = (1U << prefix) - 1;
  if (value < most) {
    *block += static_cast<char>(first | value);
    return;
  }
  *block += static_cast<char>(first | most);
  for (value -= most; value >= 128; value >>= 7U) {
    *block += static_cast<char>(value % 128 + 128);
  }
  *block += static_cast<char>(value);
}

void AddHeader(std::string* block, std::string_view name,
               std::string_view value) {
  *block += '\0';  // not indexed, a new name
  for (const std::string_view text : {name, value}) {
    AddInteger(block, 0, 7, text.size());
    *block += text;
  }
}

// Reads such a block.
class Block {
 public:
  explicit Block(std::string_view bytes) : bytes_(bytes) {}

  // The next header with a name of its own; those in HPACK's static table,
  // which has none of gRPC's, are passed over. False at the end.
  bool Next(std::string_view* name, std::string_view* value) {
    while (!bytes_.empty()) {
      const auto first = static_cast<unsigned char>(bytes_.front());
      if ((first & 0x80U) != 0) {
        constexpr std::size_t kStatic = 61;
        if (Integer(7) > kStatic) Die("the server uses HPACK's dynamic table");
      } else if ((first & 0xe0U) == 0x20U) {
        Integer(5);
      } else {
        const std::size_t named = Integer((first & 0x40U) != 0 ? 6 : 4);
        *name = named == 0 ? Text() : std::string_view();
        *value = Text();
        if (named == 0) return true;
      }
    }
    return false;
  }

 private:
  unsigned char Byte() {
    if (bytes_.empty()) Die("a block of headers ends too early");
    const auto byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }
  std::size_t Integer(unsigned prefix) {
    const std::size_t most = (1U << prefix) - 1;
    std::size_t value = Byte() & most;
    if (value < most) return value;
    for (unsigned shift = 0; shift < 28; shift += 7) {
      const std::size_t byte = Byte();
      value += (byte & 0x7fU) << shift;
      if (byte < 128) return value;
    }
    Die("a block of headers has a number that is too large");
  }
  std::string_view Text() {
    // Huffman codes stay as they are: only binary headers have them.
    const std::size_t size = Integer(7);
    if (size > bytes_.size()) Die("a header ends too early");
    const std::string_view text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return text;
  }

  std::string_view bytes_;
};

}  // namespace

UnaryCalls::UnaryCalls(int port, std::size_t connections, NewTls tls)
    : port_(port),
      authority_(fmt::format("127.0.0.1:{}", port)),
      tls_(std::move(tls)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      connections_(connections) {}

UnaryCalls::~UnaryCalls() {
  for (Connection& connection : connections_) {
    if (connection.socket >= 0) close(connection.socket);
  }
  close(epoll_);
}

void UnaryCalls::Start(std::size_t i, std::string_view path,
                       const std::string& request, Done done) {
  Connection& connection = connections_.at(i);
  if (connection.state == State::kClosed) {
    if (Clock::now() - connection.tried < kReconnect) {
      return done({.message = "the connection ended just now"});
    }
    Connect(i);
  }
  std::string block;
  for (const auto& [name, value] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {":method", "POST"},
           {":scheme", tls_ ? "https" : "http"},
           {":path", path},
           {":authority", authority_},
           {"te", "trailers"},
           {"content-type", "application/grpc"},
           {"grpc-timeout", "10S"}}) {
    AddHeader(&block, name, value);
  }
  std::string message(1, '\0');  // not compressed
  message += Number(static_cast<std::uint32_t>(request.size()));
  message += request;
  const std::uint32_t stream =
      std::exchange(connection.next, connection.next + 2);
  connection.window -= static_cast<std::int64_t>(message.size());
  if (connection.window < 0) Die("the server takes no more of a connection");
  connection.out += Frame(kHeaders, kEndHeaders, stream, block);
  connection.out += Frame(kData, kEndStream, stream, message);
  connection.streams[stream].done = std::move(done);
  overdue_.push_back({Clock::now() + kPatience, i, stream, connection.tried});
  if (connection.state == State::kOpen && !Flush(connection)) {
    Close(connection, "the connection ended");
  }
}

void UnaryCalls::Serve(Clock::time_point end) {
  EndOverdue();
  if (!overdue_.empty()) end = std::min(end, overdue_.front().when);
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(
      std::max(end - Clock::now(), Clock::duration::zero()));
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll_, events.data(), events.size(),
                               static_cast<int>(wait.count()));
  for (int e = 0; e < count; ++e) {
    Progress(events.at(static_cast<std::size_t>(e)).data.u64,
             events.at(static_cast<std::size_t>(e)).events);
  }
}

void UnaryCalls::Connect(std::size_t i) {
  Connection& connection = connections_[i];
  connection.tried = Clock::now();
  connection.next = 1;
  connection.window = kFirstWindow;
  connection.taken = 0;
  // No table of headers, and nothing that is pushed.
  connection.out = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
                   Frame(kSettings, 0, 0,
                         Number(1, 2) + Number(0) + Number(2, 2) + Number(0));
  connection.socket =
      socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (connection.socket < 0) Die("no socket: more descriptors are needed");
  const int yes = 1;
  setsockopt(connection.socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port_));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connection.state = State::kConnecting;
  if (tls_) {
    connection.tls = tls_(i);
    SSL_set_fd(connection.tls.get(), connection.socket);
    SSL_set_connect_state(connection.tls.get());
  }
  (void)!connect(connection.socket, reinterpret_cast<sockaddr*>(&to),
                 sizeof(to));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = i;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.socket, &event);
}

void UnaryCalls::Close(Connection& connection, const std::string& why) {
  connection.state = State::kClosed;
  connection.tls.reset();
  close(connection.socket);
  connection.socket = -1;
  connection.in = {};
  connection.out = {};
  while (!connection.streams.empty()) {
    End(connection, connection.streams.begin()->first, 14, why);
  }
}

void UnaryCalls::End(Connection& connection, std::uint32_t stream, int status,
                     const std::string& message) {
  auto ended = connection.streams.extract(stream);
  if (ended.empty()) return;
  Stream& call = ended.mapped();
  call.answer.status = status;
  if (!message.empty()) call.answer.message = message;
  call.done(call.answer);
}

void UnaryCalls::Progress(std::size_t i, std::uint32_t events) {
  Connection& connection = connections_[i];
  if (connection.state == State::kClosed) return;
  if (connection.state == State::kConnecting) {
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) return;
    int failed = 0;
    socklen_t size = sizeof(failed);
    getsockopt(connection.socket, SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0) return Close(connection, std::strerror(failed));
    connection.state = tls_ ? State::kShakingHands : State::kOpen;
  }
  if (connection.state == State::kShakingHands) {
    const int shaken = SSL_do_handshake(connection.tls.get());
    if (shaken != 1) {
      const int why = SSL_get_error(connection.tls.get(), shaken);
      if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return;
      return Close(connection, "TLS: " + OpensslReason());
    }
    connection.state = State::kOpen;
  }
  if (!Receive(connection) || !Flush(connection)) {
    Close(connection, "the connection ended");
  }
}

bool UnaryCalls::Flush(Connection& connection) {
  std::string& out = connection.out;
  while (!out.empty()) {
    std::size_t sent = 0;
    if (connection.tls != nullptr) {
      const int done =
          SSL_write_ex(connection.tls.get(), out.data(), out.size(), &sent);
      if (done != 1) {
        const int why = SSL_get_error(connection.tls.get(), done);
        return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
      }
    } else {
      const ssize_t done =
          send(connection.socket, out.data(), out.size(), MSG_NOSIGNAL);
      if (done < 0) return errno == EAGAIN;
      sent = static_cast<std::size_t>(done);
    }
    out.erase(0, sent);
  }
  return true;
}

bool UnaryCalls::Receive(Connection& connection) {
  std::array<char, 16'384> piece;
  while (true) {
    std::size_t came = 0;
    bool more = true;
    if (connection.tls != nullptr) {
      const int done =
          SSL_read_ex(connection.tls.get(), piece.data(), piece.size(), &came);
      if (done != 1) {
        const int why = SSL_get_error(connection.tls.get(), done);
        ERR_clear_error();
        return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
      }
    } else {
      const ssize_t done =
          recv(connection.socket, piece.data(), piece.size(), 0);
      if (done < 0) return errno == EAGAIN;
      if (done == 0) return false;
      came = static_cast<std::size_t>(done);
      more = came == piece.size();  // otherwise epoll tells of what comes next
    }
    connection.in.append(piece.data(), came);
    if (!TakeFrames(connection)) return false;
    if (!more) return true;
  }
}

bool UnaryCalls::TakeFrames(Connection& connection) {
  std::size_t at = 0;
  bool open = true;
  while (open && connection.in.size() - at >= kFrameHead) {
    const std::string_view rest = std::string_view(connection.in).substr(at);
    const std::size_t size = NumberIn(rest.substr(0, 3));
    if (rest.size() < kFrameHead + size) break;
    open = TakeFrame(connection, static_cast<unsigned char>(rest[3]),
                     static_cast<unsigned char>(rest[4]),
                     NumberIn(rest.substr(5, 4)) & 0x7fffffffU,
                     rest.substr(kFrameHead, size));
    at += kFrameHead + size;
  }
  connection.in.erase(0, at);
  return open;
}

bool UnaryCalls::TakeFrame(Connection& connection, unsigned type,
                           unsigned flags, std::uint32_t stream,
                           std::string_view payload) {
  const auto known = connection.streams.find(stream);
  const bool wanted = known != connection.streams.end();
  if ((type == kData || type == kHeaders) && (flags & kPadded) != 0) {
    Die("the server sends padding");
  }
  switch (type) {
    case kData:
      if (wanted) known->second.answer.bytes += payload;
      connection.taken += static_cast<std::uint32_t>(payload.size());
      if (connection.taken < kTellAfter) break;
      connection.out +=
          Frame(kWindow, 0, 0, Number(std::exchange(connection.taken, 0)));
      break;
    case kHeaders: {
      if ((flags & kEndHeaders) == 0) Die("the server sends long headers");
      std::string_view name;
      std::string_view value;
      std::string message;
      int status = 2;
      for (Block block(payload); block.Next(&name, &value);) {
        if (name == "grpc-status") status = std::stoi(std::string(value));
        if (name == "grpc-message") message = value;
      }
      if ((flags & kEndStream) == 0 || !wanted) break;
      known->second.answer.bytes.erase(0, kMessageHead);
      End(connection, stream, status, message);
      break;
    }
    case kReset:
      End(connection, stream, 14, "the server reset the call");
      break;
    case kSettings:
      if ((flags & kAck) == 0) connection.out += Frame(kSettings, kAck, 0, "");
      break;
    case kPing:
      if ((flags & kAck) == 0) {
        connection.out += Frame(kPing, kAck, 0, payload);
      }
      break;
    case kGoAway:
      return false;
    case kWindow:
      if (stream == 0) connection.window += NumberIn(payload);
      break;
    case kContinuation:
      Die("the server sends long headers");
    default:
      break;
  }
  return true;
}

void UnaryCalls::EndOverdue() {
  const auto now = Clock::now();
  while (!overdue_.empty() && overdue_.front().when <= now) {
    const Overdue one = overdue_.front();
    overdue_.pop_front();
    Connection& connection = connections_[one.connection];
    if (connection.tried != one.tried ||
        !connection.streams.contains(one.stream)) {
      continue;
    }
    constexpr std::uint32_t kCancel = 8;
    connection.out += Frame(kReset, 0, one.stream, Number(kCancel));
    End(connection, one.stream, 4, "no answer within 10 s");
    if (connection.state == State::kOpen) Flush(connection);
  }
}

}  // namespace ucudnn::test
