#ifndef UCUDNN_DEVICE_ONEDNN_RUNTIME_H_
#define UCUDNN_DEVICE_ONEDNN_RUNTIME_H_

// What everything of the oneDNN backend runs on: an engine and a stream, the
// threads of one device, and the translation of oneDNN's exceptions.

#include <functional>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn::onednn {

// The threads one CPU device computes with. oneDNN's are OpenMP's: how many
// there are is a setting of the calling thread, read when a primitive is
// created as well as when it runs. A Scope applies it for its lifetime.
class Threads {
 public:
  // `count` threads; if `cores` is not empty, on these cores alone.
  Threads(int count, std::vector<int> cores);

  int count() const { return count_; }

  // The calling thread works for the device until the scope ends: OpenMP's
  // number of threads is the device's, and the caller's again afterwards. With
  // cores, the calling thread is bound to them when it first works for the
  // device, and stays so; OpenMP's helpers, started by it, inherit that.
  class Scope {
   public:
    explicit Scope(const Threads& threads);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    int before_;
  };

 private:
  int count_;
  std::vector<int> cores_;
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

// Memory of the host aligned to 256 bytes; empty if there is none.
struct FreeHostMemory {
  void operator()(void* p) const;
};
using HostMemory = std::unique_ptr<void, FreeHostMemory>;
HostMemory AllocateHostMemory(Bytes size);

}  // namespace ucudnn::onednn

#endif  // UCUDNN_DEVICE_ONEDNN_RUNTIME_H_
