#include "coordinator/security/tls_memory.h"

#include <openssl/crypto.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ucudnn {
namespace {

std::size_t WholePages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

SparseBlocks& Buffers() {
  // Connections may end after all else.
  static auto* const buffers = new SparseBlocks(kTlsBufferBytes, kTlsBuffers);
  return *buffers;
}

void* Allocate(std::size_t bytes, const char* /*file*/, int /*line*/) {
  if (bytes == 0) return nullptr;
  // No other block of OpenSSL's has this size.
  void* const block = bytes == kTlsBufferBytes ? Buffers().Take() : nullptr;
  return block != nullptr ? block : std::malloc(bytes);
}

void Free(void* memory, const char* /*file*/, int /*line*/) {
  if (Buffers().Has(memory)) {
    Buffers().Give(memory);
  } else {
    std::free(memory);
  }
}

void* Reallocate(void* memory, std::size_t bytes, const char* file, int line) {
  if (memory == nullptr) return Allocate(bytes, file, line);
  if (bytes == 0) {
    Free(memory, file, line);
    return nullptr;
  }
  if (!Buffers().Has(memory)) return std::realloc(memory, bytes);
  void* const moved = std::malloc(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(bytes, kTlsBufferBytes));
  Free(memory, file, line);
  return moved;
}

}  // namespace

SparseBlocks::SparseBlocks(std::size_t bytes, std::size_t count)
    : stride_(WholePages(bytes)), count_(count) {
  void* const reserved =
      mmap(nullptr, stride_ * count_, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    count_ = 0;
    return;
  }
  base_ = static_cast<char*>(reserved);
  // Huge pages would fill the gaps.
  madvise(base_, stride_ * count_, MADV_NOHUGEPAGE);
}

SparseBlocks::~SparseBlocks() {
  if (base_ != nullptr) munmap(base_, stride_ * count_);
}

void* SparseBlocks::Take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const std::size_t block = free_.back();
    free_.pop_back();
    return base_ + block * stride_;
  }
  return used_ < count_ ? base_ + used_++ * stride_ : nullptr;
}

void SparseBlocks::Give(void* block) {
  madvise(block, stride_, MADV_DONTNEED);
  const std::lock_guard lock(mutex_);
  free_.push_back(static_cast<std::uint32_t>(
      static_cast<std::size_t>(static_cast<char*>(block) - base_) / stride_));
}

bool SparseBlocks::Has(const void* memory) const {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  const auto base = reinterpret_cast<std::uintptr_t>(base_);
  return at >= base && at < base + stride_ * count_;
}

std::size_t SparseBlocks::taken() const {
  const std::lock_guard lock(mutex_);
  return used_ - free_.size();
}

bool SaveTlsMemory() {
  return CRYPTO_set_mem_functions(Allocate, Reallocate, Free) == 1;
}

std::size_t TlsBuffersTaken() { return Buffers().taken(); }

}  // namespace ucudnn
