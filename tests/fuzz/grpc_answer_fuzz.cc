#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "client/dropin/wire/grpc_call.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {
namespace {

// Answers each connection with the same bytes, whatever is asked, and ends it.
class Answerer {
 public:
  Answerer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    UCUDNN_CHECK(listener_ >= 0);
    UCUDNN_CHECK(bind(listener_, any, size) == 0);
    UCUDNN_CHECK(listen(listener_, 1) == 0);
    UCUDNN_CHECK(getsockname(listener_, any, &size) == 0);
    endpoint_ = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  }

  const std::string& endpoint() const { return endpoint_; }

  void Answer(std::string_view text) const {
    const int peer = accept(listener_, nullptr, nullptr);
    UCUDNN_CHECK(peer >= 0);
    while (!text.empty()) {
      const ssize_t sent = send(peer, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;  // heard enough
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    shutdown(peer, SHUT_WR);
    // To the end, so that closing does not throw away what was sent.
    std::array<char, 4096> heard;
    while (recv(peer, heard.data(), heard.size(), 0) > 0) {
    }
    close(peer);
  }

 private:
  int listener_;
  std::string endpoint_;
};

}  // namespace

// A message, or an error, before the connection ends.
UCUDNN_FUZZ(grpc_answer, text) {
  static const Answerer answerer;
  const std::jthread service([text] { answerer.Answer(text); });
  const auto answer =
      CallGrpc(answerer.endpoint(), "/any", "question",
               std::chrono::steady_clock::now() + std::chrono::seconds(20));
  if (answer) {
    UCUDNN_CHECK(answer->size() + 5 <= text.size());
  } else {
    UCUDNN_CHECK(answer.error().code != Code::kDeadlineExceeded);
    UCUDNN_CHECK(IsPlainText(answer.error().message));
  }
}

}  // namespace ucudnn
