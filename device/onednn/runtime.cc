#include "device/onednn/runtime.h"

#include <exception>
#include <new>

// Functions of the OpenMP runtime that oneDNN is linked with. They are declared
// here because other compilers bring their own runtime (and header), whose
// settings oneDNN would not see.
extern "C" {
void omp_set_num_threads(int count);
int omp_get_max_threads(void);
}

namespace ucudnn::onednn {

Threads::Threads(int count, const std::vector<int>& cores) : count_(count) {
  if (cores.empty()) return;
  cores_.emplace();
  CPU_ZERO(&*cores_);
  for (const int core : cores)
    CPU_SET(static_cast<std::size_t>(core), &*cores_);
}

Threads::Scope::Scope(const Threads& threads)
    : threads_before_(omp_get_max_threads()) {
  omp_set_num_threads(threads.count_);
  if (!threads.cores_) return;
  // Failure costs only speed: the cores were available when the device opened.
  cores_before_.emplace();
  if (sched_getaffinity(0, sizeof(cpu_set_t), &*cores_before_) != 0 ||
      sched_setaffinity(0, sizeof(cpu_set_t), &*threads.cores_) != 0) {
    cores_before_.reset();
  }
}

Threads::Scope::~Scope() {
  omp_set_num_threads(threads_before_);
  if (cores_before_) sched_setaffinity(0, sizeof(cpu_set_t), &*cores_before_);
}

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

}  // namespace ucudnn::onednn
