#ifndef UCUDNN_BASE_SERVICE_CALL_H_
#define UCUDNN_BASE_SERVICE_CALL_H_

// The call that a thread of a service answers. Whatever waits or computes for
// long on its behalf asks now and then whether anybody still wants the answer:
//
//   const Call call([&] { return context.IsCancelled() ? ... : Status(); });
//   ...
//   UCUDNN_RETURN_IF_ERROR(Call::Check());   // far below, in the same thread

#include <functional>
#include <string>

#include "base/result.h"

namespace ucudnn {

class Call {
 public:
  // `wanted` fails (kCancelled, kDeadlineExceeded, kUnavailable) once the
  // answer is not wanted any more. This thread answers the call until the
  // object's end; calls do not nest.
  explicit Call(std::function<Status()> wanted);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Of the call that this thread answers; OK if it answers none.
  static Status Check();

  // Who made the call, or whom else this thread works for; empty if nobody
  // knows.
  static const std::string& Caller();

  // While it lives, this thread works for this caller. They do not nest.
  class By {
   public:
    explicit By(std::string name);
    ~By();
    By(const By&) = delete;
    By& operator=(const By&) = delete;
  };

  // While it lives, this thread works for other calls too, so Check is OK even
  // if the thread's own call is not wanted any more.
  class Shared {
   public:
    Shared();
    ~Shared();
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

   private:
    const std::function<Status()>* own_;
  };

 private:
  std::function<Status()> wanted_;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_CALL_H_
