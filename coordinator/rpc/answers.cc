#include "coordinator/rpc/answers.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "coordinator/limits.h"

namespace ucudnn {
namespace {

thread_local Answers::Call* this_call = nullptr;

}  // namespace

Answers::Call::Call(Answers& answers, grpc::ServerContextBase& context)
    : answers_(answers), context_(context) {
  this_call = this;
  const std::lock_guard lock(answers_.mutex_);
  answers_.calls_.insert(this);
}

Answers::Call::~Call() {
  this_call = nullptr;
  const std::lock_guard lock(answers_.mutex_);
  answers_.calls_.erase(this);
}

std::vector<Answers::Call*> Answers::UnreadFor(
    std::chrono::milliseconds time) const {
  const auto before = std::chrono::steady_clock::now() - time;
  std::vector<Call*> unread;
  for (Call* call : calls_) {
    if (call->since_ && !call->ended_ && *call->since_ <= before) {
      unread.push_back(call);
    }
  }
  std::ranges::sort(unread, {}, [](const Call* call) { return *call->since_; });
  return unread;
}

Status Answers::BeginWriting(const std::string& connection,
                             const std::string& caller) {
  const std::lock_guard lock(mutex_);
  const auto unread = UnreadFor(kUnreadAfter);
  const auto of_connection =
      std::ranges::count(unread, connection, &Call::connection_);
  const auto of_caller =
      caller.empty() ? 0 : std::ranges::count(unread, caller, &Call::caller_);
  if (of_connection >= kMaxUnreadOfAConnection ||
      of_caller >= kMaxUnreadOfACaller) {
    return Fail(Code::kResourceExhausted,
                "{} answers to this client are not read yet; read them, and "
                "try again in a second",
                std::max(of_connection, of_caller));
  }
  this_call->since_ = std::chrono::steady_clock::now();
  this_call->connection_ = connection;
  this_call->caller_ = caller;
  return {};
}

std::size_t Answers::EndUnread(std::chrono::milliseconds patience) {
  const auto before = std::chrono::steady_clock::now() - patience;
  const std::lock_guard lock(mutex_);
  const auto unread = UnreadFor(std::min(kUnreadAfter, patience));
  std::map<std::string, std::ptrdiff_t> of_connection;
  std::map<std::string, std::ptrdiff_t> of_caller;
  std::vector<Call*> too_many;
  std::vector<Call*> others;
  for (Call* call : unread) {
    const bool kept =
        *call->since_ > before &&
        ++of_connection[call->connection_] <= kMaxUnreadOfAConnection &&
        (call->caller_.empty() ||
         ++of_caller[call->caller_] <= kMaxUnreadOfACaller);
    (kept ? others : too_many).push_back(call);
  }
  // Of all clients, those who wait longest go first.
  if (std::ssize(others) > kMaxUnread) {
    too_many.insert(too_many.end(), others.begin(), others.end() - kMaxUnread);
  }
  for (Call* call : too_many) {
    call->context_.TryCancel();
    call->ended_ = true;
  }
  return too_many.size();
}

std::size_t Answers::running() const {
  const std::lock_guard lock(mutex_);
  return calls_.size();
}

std::size_t Answers::unread() const {
  const std::lock_guard lock(mutex_);
  return UnreadFor(kUnreadAfter).size();
}

}  // namespace ucudnn
