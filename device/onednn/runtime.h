#ifndef UCUDNN_DEVICE_ONEDNN_RUNTIME_H_
#define UCUDNN_DEVICE_ONEDNN_RUNTIME_H_

// What everything of the oneDNN backend runs on: an engine and a stream, the
// threads of one device, and the translation of oneDNN's exceptions.

#include <sched.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "base/result.h"

namespace ucudnn::onednn {

// The threads one CPU device computes with. oneDNN's are OpenMP's: how many
// there are is a setting of the calling thread, read when a primitive is
// created as well as when it runs. A Scope applies it for its lifetime.
class Threads {
 public:
  // `count` threads; if `cores` is not empty, on these cores alone.
  Threads(int count, const std::vector<int>& cores);

  int count() const { return count_; }

  // The calling thread works for the device until the scope ends: OpenMP's
  // number of threads, and with cores the thread's own cores, are the device's
  // and then the caller's again. OpenMP's helpers inherit the cores of the
  // thread that starts them, and keep them; those that the same thread started
  // before are not moved.
  class Scope {
   public:
    explicit Scope(const Threads& threads);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    int threads_before_;
    std::optional<cpu_set_t> cores_before_;
  };

 private:
  int count_;
  std::optional<cpu_set_t> cores_;
};

struct Runtime {
  dnnl::engine engine;
  dnnl::stream stream;
  Threads threads;
};

// The error an exception of oneDNN (or of an allocation) means; to be called
// in a catch block.
Error CaughtError();

// What `body` returns; the error that what it throws means.
template <class Body>
auto Translated(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return tl::unexpected<Error>(CaughtError());
  }
}

}  // namespace ucudnn::onednn

#endif  // UCUDNN_DEVICE_ONEDNN_RUNTIME_H_
