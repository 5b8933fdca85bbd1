#ifndef UCUDNN_COORDINATOR_RPC_UNREAD_H_
#define UCUDNN_COORDINATOR_RPC_UNREAD_H_

// Answers on their way to clients. HTTP/2 lets a client put off reading for
// ever: its window may be 0. That holds no thread, but memory, so calls end
// whose answers are not read in time, and those of the connection that leaves
// most unread while all together take too much.

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>

namespace ucudnn {

// Thread-safe.
class Unread {
  struct Answer {
    std::string connection;
    std::size_t bytes = 0;
    std::function<void()> end;
    std::chrono::steady_clock::time_point since;
    bool ended = false;
  };

 public:
  using Place = std::list<Answer>::iterator;
  struct Count {
    std::size_t unread = 0;  // now
    std::size_t ended = 0;   // since the last count
  };

  explicit Unread(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // An answer is being sent, until Remove; `end`, which must not use this
  // object, ends its call.
  Place Add(const std::string& connection, std::size_t bytes,
            std::function<void()> end);
  void Remove(Place place);

  // Ends the calls whose answers were not read for `patience`, and counts those
  // that were not for `unread_after`.
  Count EndOverdue(std::chrono::milliseconds patience,
                   std::chrono::milliseconds unread_after);

 private:
  // With mutex_ held, all of them.
  void EndOneOfMost();
  void End(Answer& answer);
  void Forget(const Answer& answer);

  const std::size_t max_bytes_;
  std::mutex mutex_;
  std::list<Answer> answers_;  // the oldest first
  std::size_t bytes_ = 0;      // of those that have not ended
  std::map<std::string, std::size_t> of_connection_;
  std::size_t ended_ = 0;  // since the last count
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_RPC_UNREAD_H_
