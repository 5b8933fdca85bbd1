#include "tests/client/dropin/handle/counts.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int> allocations = 0;
std::atomic<int> locks = 0;

}  // namespace

int Allocations() { return allocations; }
int Locks() { return locks; }

#ifdef __SANITIZE_THREAD__
bool IsCounting() { return false; }
#else
bool IsCounting() { return true; }

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const data = std::malloc(size > 0 ? size : 1)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static std::atomic<Lock> real = nullptr;
  Lock lock = real;
  if (lock == nullptr) {
    lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    real = lock;
  }
  ++locks;
  return lock(mutex);
}
#endif
