#ifndef UCUDNN_CLIENT_RANKS_SHARED_MEMORY_H_
#define UCUDNN_CLIENT_RANKS_SHARED_MEMORY_H_

// Memory that processes of one node share. It has no name that could outlive
// them: it is gone with the last process that has mapped it, however it ends.
// Mapped as zeros; a page is taken where it is first written.

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"

namespace ucudnn {

class SharedMemory {
 public:
  // kResourceExhausted or kUnimplemented, with what the system says.
  static Result<std::unique_ptr<SharedMemory>> Create(std::size_t size);
  // The memory of a process of the same place() that made it with `size` and
  // still has it; `path` is that one's. kUnavailable.
  static Result<std::unique_ptr<SharedMemory>> Open(const std::string& path,
                                                    std::size_t size);
  // Unmaps it.
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Where others find what Create has made, until Seal.
  std::string path() const;
  // Nobody else will open it.
  void Seal();

  // Of this process: equal where processes can open each other's memory, that
  // is on one node, seeing each other. Empty if the system does not tell.
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
