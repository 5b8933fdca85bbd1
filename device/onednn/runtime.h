#ifndef UCUDNN_DEVICE_ONEDNN_RUNTIME_H_
#define UCUDNN_DEVICE_ONEDNN_RUNTIME_H_

// Shared by the whole oneDNN backend: an engine and a stream, the threads of
// one device, and the translation of oneDNN's exceptions.

#include <sched.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "base/result.h"

namespace ucudnn::onednn {

// The threads of one CPU device. oneDNN uses OpenMP's, whose number is a
// setting of the calling thread that is read both when a primitive is created
// and when it runs. A Scope applies it for its lifetime.
class Threads {
 public:
  // `count` threads; if `cores` is not empty, only on these cores.
  Threads(int count, const std::vector<int>& cores);

  int count() const { return count_; }

  // Until the scope ends, the calling thread has the device's number of OpenMP
  // threads and, if `cores` are given, the device's cores; then the caller's
  // settings are restored. OpenMP's worker threads inherit and keep the cores
  // of the thread that starts them; workers that the same thread started before
  // are not moved.
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

// The error for an exception of oneDNN (or of an allocation); call it in a
// catch block.
Error CaughtError();

// The result of `body`; if it throws, CaughtError().
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
