#include "device/onednn/runtime.h"

#include <sched.h>

#include <cstdlib>
#include <exception>
#include <utility>

// Of the OpenMP runtime that oneDNN is linked with. Declared here since
// compilers other than oneDNN's own come with a runtime (and header) of
// theirs, whose settings oneDNN would not see.
extern "C" {
void omp_set_num_threads(int count);
int omp_get_max_threads(void);
}

namespace ucudnn::onednn {

Threads::Threads(int count, std::vector<int> cores)
    : count_(count), cores_(std::move(cores)) {}

Threads::Scope::Scope(const Threads& threads) : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads.count_);
  if (threads.cores_.empty()) return;
  // The cores this thread is bound to; it works for one device at a time.
  thread_local std::vector<int> bound;
  if (bound == threads.cores_) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : threads.cores_) CPU_SET(std::size_t(core), &set);
  // Failing costs speed alone: the cores were there when the device opened.
  if (sched_setaffinity(0, sizeof(set), &set) == 0) bound = threads.cores_;
}

Threads::Scope::~Scope() { omp_set_num_threads(before_); }

Error CaughtError() {
  try {
    throw;
  } catch (const dnnl::error& e) {
    const auto code = [&] {
      switch (e.status) {
        case dnnl_out_of_memory:
          return Code::kResourceExhausted;
        case dnnl_unimplemented:
          return Code::kUnimplemented;
        default:
          return Code::kInternal;
      }
    };
    return {code(), fmt::format("oneDNN: {} (status {})", e.message,
                                static_cast<int>(e.status))};
  } catch (const std::bad_alloc&) {
    return {Code::kResourceExhausted, "not enough host memory"};
  } catch (const std::exception& e) {
    return {Code::kUnknown, e.what()};
  }
}

void FreeHostMemory::operator()(void* p) const { std::free(p); }

HostMemory AllocateHostMemory(Bytes size) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t rounded =
      (static_cast<std::size_t>(size.count()) + kAlignment - 1) / kAlignment *
      kAlignment;
  return HostMemory(std::aligned_alloc(kAlignment, rounded));
}

}  // namespace ucudnn::onednn
