#ifndef UCUDNN_CLIENT_DROPIN_WIRE_ON_THREAD_H_
#define UCUDNN_CLIENT_DROPIN_WIRE_ON_THREAD_H_

// Runs what cannot be interrupted within a deadline, as the program's thread
// must not wait for it.

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/result.h"
#include "client/dropin/wire/byte_stream.h"

namespace ucudnn {

// Starts a detached thread that blocks all signals, which are the program's.
// Throws std::system_error.
void Detach(std::function<void()> work);

// Nothing may leave a thread of ours as an exception.
template <class T>
Result<T> Guarded(const std::function<Result<T>()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return Fail(Code::kResourceExhausted, "{}", error.what());
  }
}

// The result of `work`, which runs on a thread of its own. kDeadlineExceeded
// if it takes longer, and then the thread is left behind, so `work` must own
// all that it uses; kUnavailable if no thread can be started. `what` is done,
// for errors: "looking up a-host".
template <class T>
Result<T> OnThread(Deadline deadline, std::string_view what,
                   std::function<Result<T>()> work) {
  struct Pending {
    std::mutex mutex;
    std::condition_variable given;
    std::optional<Result<T>> result;
  };
  const auto pending = std::make_shared<Pending>();
  try {
    Detach([pending, work = std::move(work)] {
      Result<T> result = Guarded(work);
      const std::lock_guard lock(pending->mutex);
      pending->result = std::move(result);
      pending->given.notify_one();
    });
  } catch (const std::system_error& error) {
    return Fail(Code::kUnavailable, "no thread can be started for {}: {}", what,
                error.what());
  }
  std::unique_lock lock(pending->mutex);
  if (!pending->given.wait_until(lock, deadline,
                                 [&] { return pending->result.has_value(); })) {
    return Fail(Code::kDeadlineExceeded, "{} takes too long", what);
  }
  return *std::move(pending->result);
}

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_WIRE_ON_THREAD_H_
