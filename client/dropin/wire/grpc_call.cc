// RFC 9113 (HTTP/2), RFC 7541 (its headers), and gRPC's "gRPC over HTTP2".
//
// Headers are sent as literals without indexing.

#include "client/dropin/wire/grpc_call.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/units.h"
#include "client/dropin/wire/grpc_status.h"
#include "client/dropin/wire/tcp.h"

namespace ucudnn {
namespace {

constexpr std::size_t kMaxAnswer = 16U << 20;
constexpr std::size_t kMaxFrame = 16384;  // the default, which we keep
constexpr std::size_t kFrameHeader = 9;
constexpr std::size_t kMessageHeader = 5;  // compression flag, length
constexpr std::uint32_t kStream = 1;

enum FrameType : unsigned char {
  kData = 0,
  kHeaders = 1,
  kResetStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
};
enum Flag : unsigned char {
  kEndStream = 0x1,  // on data and headers
  kAck = 0x1,        // on settings and pings
  kEndHeaders = 0x4,
  kPadded = 0x8,
  kPriority = 0x20,  // on headers: begins with five bytes
};

void AppendNumber(std::uint32_t value, int bytes, std::string* text) {
  for (int i = bytes - 1; i >= 0; --i) {
    text->push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

std::uint32_t NumberAt(std::string_view text, std::size_t at, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value = value << 8 |
            static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
  }
  return value;
}

void AppendFrame(FrameType type, unsigned flags, std::uint32_t stream,
                 std::string_view payload, std::string* text) {
  AppendNumber(static_cast<std::uint32_t>(payload.size()), 3, text);
  text->push_back(static_cast<char>(type));
  text->push_back(static_cast<char>(flags));
  AppendNumber(stream, 4, text);
  text->append(payload);
}

// Appends a header string without Huffman coding.
void AppendString(std::string_view value, std::string* text) {
  // Lengths are integers with a 7-bit prefix.
  if (value.size() < 127) {
    text->push_back(static_cast<char>(value.size()));
  } else {
    text->push_back(127);
    std::size_t rest = value.size() - 127;
    for (; rest >= 128; rest /= 128) {
      text->push_back(static_cast<char>(rest % 128 + 128));
    }
    text->push_back(static_cast<char>(rest));
  }
  text->append(value);
}

std::string RequestHeaders(std::string_view endpoint, std::string_view method,
                           const WireAccess& access) {
  std::string block;
  // Indices of whole headers and of names in the static table.
  block += '\x83';                                   // :method: POST
  block += access.tls == nullptr ? '\x86' : '\x87';  // :scheme: http or https
  block += '\x04';                                   // :path
  AppendString(method, &block);
  block += '\x01';  // :authority
  AppendString(endpoint, &block);
  block += "\x0f\x10";  // content-type
  AppendString("application/grpc", &block);
  block += '\0';  // a new name
  AppendString("te", &block);
  AppendString("trailers", &block);
  if (!access.token.empty()) {
    block += "\x1f\x08";  // authorization, which nobody may keep
    AppendString("Bearer " + access.token, &block);
  }
  return block;
}

std::string Request(std::string_view endpoint, std::string_view method,
                    std::string_view message, const WireAccess& access) {
  std::string text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::string settings;
  const auto set = [&](std::uint32_t name, std::uint32_t value) {
    AppendNumber(name, 2, &settings);
    AppendNumber(value, 4, &settings);
  };
  constexpr std::uint32_t kWindow = kMaxAnswer + kMaxFrame;
  set(1, 0);        // no header is kept for later ones
  set(2, 0);        // no server push
  set(4, kWindow);  // flow-control window of a stream
  AppendFrame(kSettings, 0, 0, settings, &text);
  std::string window;
  AppendNumber(kWindow, 4, &window);
  AppendFrame(kWindowUpdate, 0, 0, window, &text);  // and of the connection
  AppendFrame(kHeaders, kEndHeaders, kStream,
              RequestHeaders(endpoint, method, access), &text);
  std::string data(1, '\0');  // not compressed
  AppendNumber(static_cast<std::uint32_t>(message.size()), 4, &data);
  data += message;
  AppendFrame(kData, kEndStream, kStream, data, &text);
  return text;
}

tl::unexpected<Error> Malformed(const char* what) {
  return Fail(Code::kInternal, "not a gRPC service's answer: {}", what);
}

// The payload of a frame of data or headers, without its padding.
Result<std::string_view> Unpad(std::string_view payload, unsigned flags) {
  if ((flags & kPadded) == 0) return payload;
  if (payload.empty()) return Malformed("padding");
  const std::size_t padding = static_cast<unsigned char>(payload[0]);
  payload.remove_prefix(1);
  if (padding > payload.size()) return Malformed("padding");
  payload.remove_suffix(padding);
  return payload;
}

class Answer {
 public:
  explicit Answer(ByteStream& connection) : connection_(connection) {}

  Result<std::string> Message(Deadline deadline) {
    while (true) {
      UCUDNN_ASSIGN_OR_RETURN(const bool whole, IsWhole());
      if (whole) return data_.substr(kMessageHeader);
      if (ended_) return Refusal();
      UCUDNN_RETURN_IF_ERROR(ReadFrame(deadline));
    }
  }

  // Whether the peer has sent a frame.
  bool has_begun() const { return has_begun_; }

 private:
  tl::unexpected<Error> Refusal() const {
    if (told_.code == Code::kOk) {
      return Fail(Code::kUnavailable, "the answer has no message");
    }
    const bool is_about_us = told_.code == Code::kUnauthenticated ||
                             told_.code == Code::kPermissionDenied;
    return Fail(is_about_us ? told_.code : Code::kUnavailable,
                "the call is refused ({}): {}", CodeName(told_.code),
                told_.message);
  }

  Result<bool> IsWhole() const {
    if (data_.size() < kMessageHeader) return false;
    if (data_[0] != 0) return Malformed("a compressed message");
    const std::size_t length = NumberAt(data_, 1, 4);
    if (length > kMaxAnswer) return Malformed("a message of more than 16 MiB");
    if (data_.size() - kMessageHeader > length)
      return Malformed("two messages");
    return data_.size() - kMessageHeader == length;
  }

  Status ReadFrame(Deadline deadline) {
    const auto have = [&](std::size_t size) -> Status {
      while (read_.size() < size) {
        UCUDNN_RETURN_IF_ERROR(connection_.Read(&read_, deadline));
      }
      return {};
    };
    UCUDNN_RETURN_IF_ERROR(have(kFrameHeader));
    const std::size_t length = NumberAt(read_, 0, 3);
    if (length > kMaxFrame) return Malformed("a frame of more than 16 KiB");
    UCUDNN_RETURN_IF_ERROR(have(kFrameHeader + length));
    const std::string frame = read_.substr(0, kFrameHeader + length);
    read_.erase(0, kFrameHeader + length);
    has_begun_ = true;
    return Take(static_cast<unsigned char>(frame[3]),
                static_cast<unsigned char>(frame[4]),
                NumberAt(frame, 5, 4) & 0x7fffffffU,
                std::string_view(frame).substr(kFrameHeader), deadline);
  }

  Status Take(unsigned type, unsigned flags, std::uint32_t stream,
              std::string_view payload, Deadline deadline) {
    std::string reply;
    switch (type) {
      case kData: {
        if (stream != kStream) return Malformed("data of an unknown stream");
        UCUDNN_ASSIGN_OR_RETURN(const auto data, Unpad(payload, flags));
        data_ += data;
        ended_ = (flags & kEndStream) != 0;
        return {};
      }
      case kHeaders:
        if (stream != kStream) return {};
        return TakeHeaders(payload, flags);
      case kResetStream:
        ended_ = true;
        return {};
      case kGoAway:  // carries the last stream that is served
        if (payload.size() < 4)
          return Malformed("a GOAWAY frame that is too short");
        ended_ = ended_ || (NumberAt(payload, 0, 4) & 0x7fffffffU) < kStream;
        return {};
      case kSettings:
        if ((flags & kAck) != 0) return {};
        AppendFrame(kSettings, kAck, 0, "", &reply);
        return connection_.Write(reply, deadline);
      case kPing:
        if ((flags & kAck) != 0) return {};
        AppendFrame(kPing, kAck, 0, payload, &reply);
        return connection_.Write(reply, deadline);
      default:
        return {};  // irrelevant here, or of a later version
    }
  }

  Status TakeHeaders(std::string_view payload, unsigned flags) {
    ended_ = ended_ || (flags & kEndStream) != 0;
    // Continued in further frames only if they are long, and then not read.
    if ((flags & kEndHeaders) == 0) return {};
    UCUDNN_ASSIGN_OR_RETURN(std::string_view block, Unpad(payload, flags));
    if ((flags & kPriority) != 0)
      block = block.substr(std::min<std::size_t>(block.size(), 5));
    ReadGrpcStatus(block, &told_);
    return {};
  }

  ByteStream& connection_;
  std::string read_;  // received, not yet parsed
  std::string data_;  // of the call
  GrpcStatus told_;
  bool has_begun_ = false;
  bool ended_ = false;
};

Result<std::unique_ptr<ByteStream>> Connect(std::string_view endpoint,
                                            const WireAccess& access,
                                            Deadline deadline) {
  const Endpoint split = SplitEndpoint(endpoint);
  UCUDNN_ASSIGN_OR_RETURN(TcpConnection connection,
                          TcpConnection::Open(split, deadline));
  if (access.tls != nullptr) {
    return access.tls->Connect(std::move(connection), split.host, deadline);
  }
  return std::make_unique<TcpConnection>(std::move(connection));
}

}  // namespace

Result<std::string> CallGrpc(std::string_view endpoint, std::string_view method,
                             std::string_view message, Deadline deadline,
                             const WireAccess& access) {
  // The request is one frame, which fits into every service's initial window.
  if (message.size() + kMessageHeader > kMaxFrame) {
    return Fail(Code::kInternal,
                "a request of {} bytes does not fit into a frame",
                message.size());
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto connection,
                          Connect(endpoint, access, deadline));
  UCUDNN_RETURN_IF_ERROR(
      connection->Write(Request(endpoint, method, message, access), deadline));
  Answer answer(*connection);
  auto read = answer.Message(deadline);
  if (!read && read.error().code == Code::kUnavailable &&
      access.tls == nullptr && !answer.has_begun()) {
    // What a coordinator that speaks TLS does.
    return Fail(Code::kFailedPrecondition,
                "{} before an answer; if TLS is spoken there, UCUDNN_CA has to "
                "name its authority's certificate",
                read.error().message);
  }
  return read;
}

}  // namespace ucudnn
