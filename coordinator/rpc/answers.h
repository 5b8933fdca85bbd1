#ifndef UCUDNN_COORDINATOR_RPC_ANSWERS_H_
#define UCUDNN_COORDINATOR_RPC_ANSWERS_H_

// The calls that hold threads of gRPC. A thread is held until the answer is
// written, and HTTP/2 lets a client put that off for ever: its window may be 0.
// So calls end whose answers are not read in time, or beside too many others
// that are not: of one connection, of one caller, or of all.

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace grpc {
class ServerContextBase;
}  // namespace grpc

namespace ucudnn {

// Thread-safe. Must outlive its calls.
class Answers {
 public:
  // A call, on the thread that answers it, until its answer is written.
  class Call {
   public:
    Call(Answers& answers, grpc::ServerContextBase& context);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend class Answers;
    Answers& answers_;
    grpc::ServerContextBase& context_;
    // Set once the answer is being written.
    std::optional<std::chrono::steady_clock::time_point> since_;
    std::string connection_;
    std::string caller_;
    bool ended_ = false;
  };

  // The answer to the call of this thread is written next, to `caller`, if it
  // is known who that is. kResourceExhausted if the connection or the caller
  // has left too many unread: then the call is to fail, which needs no window.
  Status BeginWriting(const std::string& connection, const std::string& caller);

  // To be called every kUnreadAfter. Ends the calls whose answers were not read
  // for `patience`, or are too many; returns how many.
  std::size_t EndUnread(std::chrono::milliseconds patience);

  std::size_t running() const;  // threads that are held
  std::size_t unread() const;   // of these, by answers that are not read

 private:
  // With mutex_ held: those that are not read for so long, the oldest first.
  std::vector<Call*> UnreadFor(std::chrono::milliseconds time) const;

  mutable std::mutex mutex_;
  std::set<Call*> calls_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_RPC_ANSWERS_H_
