#ifndef UCUDNN_COORDINATOR_SECURITY_TLS_MEMORY_H_
#define UCUDNN_COORDINATOR_SECURITY_TLS_MEMORY_H_

// What TLS connections keep in memory. gRPC has OpenSSL make two buffers of
// 17 KiB for each, in which a handshake uses the first kilobytes and calls some
// hundred bytes; among other blocks of malloc they are mostly whole pages that
// were used before. Nothing makes them smaller, but OpenSSL asks us for its
// memory: in pages of their own they take what is used of them, 29 of 135 KB
// of a connection less (docs/results/service-scale-2026-11-25.md).

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ucudnn {

// Blocks in whole pages of their own. Pages that nobody wrote to take no
// memory, nor do those of a block that was given back. Thread-safe.
class SparseBlocks {
 public:
  // Reserves addresses for `count` blocks of at most `bytes`. If the system
  // refuses, there are none.
  SparseBlocks(std::size_t bytes, std::size_t count);
  ~SparseBlocks();
  SparseBlocks(const SparseBlocks&) = delete;
  SparseBlocks& operator=(const SparseBlocks&) = delete;

  void* Take();  // null: none is left
  void Give(void* block);
  // Whether `memory` is one of the blocks.
  bool Has(const void* memory) const;
  std::size_t taken() const;

 private:
  const std::size_t stride_;
  std::size_t count_;
  char* base_ = nullptr;
  mutable std::mutex mutex_;
  std::size_t used_ = 0;             // the first so many were taken once
  std::vector<std::uint32_t> free_;  // of these
};

// Has OpenSSL take such buffers from SparseBlocks from now on. False if it has
// memory already, which happens with its first use.
bool SaveTlsMemory();

// Of the buffers of the process's TLS connections.
inline constexpr std::size_t kTlsBufferBytes = 17 * 1024;
// Those of 32,768 connections; others' are malloc's.
inline constexpr std::size_t kTlsBuffers = 65'536;
// How many there are now.
std::size_t TlsBuffersTaken();

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_SECURITY_TLS_MEMORY_H_
