#include "client/ranks/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace ucudnn {
namespace {

tl::unexpected<Error> SystemFailure(Code code, const char* call) {
  return Fail(code, "{}: {}", call, std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::Create(std::size_t size) {
  const int file = memfd_create("ucudnn", MFD_CLOEXEC);
  if (file < 0) return SystemFailure(Code::kUnimplemented, "memfd_create");
  if (ftruncate(file, static_cast<off_t>(size)) != 0) {
    auto failure = SystemFailure(Code::kResourceExhausted, "ftruncate");
    close(file);
    return failure;
  }
  return Map(file, size);
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::Open(
    const std::string& path, std::size_t size) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return SystemFailure(Code::kUnavailable, path.c_str());
  struct stat found = {};
  if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode) ||
      found.st_size != static_cast<off_t>(size)) {
    close(file);
    return Fail(Code::kUnavailable, "{} is not shared memory of {} bytes", path,
                size);
  }
  auto opened = Map(file, size);
  if (opened) (*opened)->Seal();
  return opened;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::Map(int file,
                                                        std::size_t size) {
  void* const data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    auto failure = SystemFailure(Code::kResourceExhausted, "mmap");
    close(file);
    return failure;
  }
  return std::unique_ptr<SharedMemory>(
      new SharedMemory(file, static_cast<std::byte*>(data), size));
}

SharedMemory::~SharedMemory() {
  Seal();
  munmap(data_, size_);
}

std::string SharedMemory::path() const {
  return fmt::format("/proc/{}/fd/{}", getpid(), file_);
}

void SharedMemory::Seal() {
  if (file_ >= 0) close(file_);
  file_ = -1;
}

std::string SharedMemory::Place() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> space = {};
  const ssize_t length =
      readlink("/proc/self/ns/pid", space.data(), space.size());
  if (boot.empty() || length <= 0) return {};
  return boot + " " +
         std::string(space.data(), static_cast<std::size_t>(length));
}

}  // namespace ucudnn
