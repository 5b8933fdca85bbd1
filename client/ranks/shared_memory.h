#ifndef UCUDNN_CLIENT_RANKS_SHARED_MEMORY_H_
#define UCUDNN_CLIENT_RANKS_SHARED_MEMORY_H_

// Memory that processes of one node share. It has no name in the file system
// and is freed with the last process that maps it, however that ends. Initially
// zero; pages are allocated when first written.

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"

namespace ucudnn {

class SharedMemory {
 public:
  // kResourceExhausted or kUnimplemented, with the system's error.
  static Result<std::unique_ptr<SharedMemory>> Create(std::size_t size);
  // Maps the memory that another process with the same Place() created with
  // this size and has not sealed or freed. `path` is that process's path().
  // kUnavailable.
  static Result<std::unique_ptr<SharedMemory>> Open(const std::string& path,
                                                    std::size_t size);
  // Unmaps it.
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Where other processes can open this memory, until Seal.
  std::string path() const;
  // Closes the memory to other processes.
  void Seal();

  // Identifies the processes that can open each other's memory: those of one
  // node in one process namespace. Empty if the system does not report it.
  static std::string Place();

 private:
  SharedMemory(int file, std::byte* data, std::size_t size)
      : file_(file), data_(data), size_(size) {}
  static Result<std::unique_ptr<SharedMemory>> Map(int file, std::size_t size);

  int file_;  // -1: none
  std::byte* const data_;
  const std::size_t size_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RANKS_SHARED_MEMORY_H_
