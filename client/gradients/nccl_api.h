#ifndef UCUDNN_CLIENT_GRADIENTS_NCCL_API_H_
#define UCUDNN_CLIENT_GRADIENTS_NCCL_API_H_

// The part of NCCL that sums gradients, loaded at run time. NCCL's header is
// not needed to build: what stands here is its stable C interface.

#include <cuda.h>

#include <array>
#include <cstddef>
#include <string>

#include "base/result.h"

struct ncclComm;  // as NCCL names it

namespace ucudnn {

enum class NcclResult : int { kSuccess = 0, kInProgress = 7 };
enum class NcclType : int { kFloat = 7, kDouble = 8 };
enum class NcclOp : int { kSum = 0 };  // others are created
enum class NcclResidence : int { kHostImmediate = 1 };

struct NcclId {
  std::array<char, 128> bytes;
};

// The first members of ncclConfig_t; NCCL reads as many bytes as `size` says.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;  // the first with `blocking`
  int blocking = 0;
};

struct NcclApi {
  NcclResult (*GetVersion)(int* version) = nullptr;
  NcclResult (*GetUniqueId)(NcclId* id) = nullptr;
  NcclResult (*CommInitRankConfig)(ncclComm** comm, int ranks, NcclId id,
                                   int rank, NcclConfig* config) = nullptr;
  NcclResult (*CommGetAsyncError)(ncclComm* comm, NcclResult* error) = nullptr;
  NcclResult (*CommAbort)(ncclComm* comm) = nullptr;
  NcclResult (*RedOpCreatePreMulSum)(NcclOp* op, void* scalar, NcclType type,
                                     NcclResidence residence,
                                     ncclComm* comm) = nullptr;
  NcclResult (*RedOpDestroy)(NcclOp op, ncclComm* comm) = nullptr;
  NcclResult (*AllReduce)(const void* from, void* to, std::size_t count,
                          NcclType type, NcclOp op, ncclComm* comm,
                          CUstream stream) = nullptr;
  NcclResult (*GroupStart)() = nullptr;
  NcclResult (*GroupEnd)() = nullptr;
  const char* (*GetErrorString)(NcclResult result) = nullptr;
};

// libnccl.so.2, found as NVIDIA's other libraries are
// (device/cudnn/driver/libraries.h); loaded once in a process. kUnavailable if
// it is not found, kUnimplemented if it is older than 2.14. Thread safe.
Result<const NcclApi*> LoadedNccl();

// "2.28.9"; "unknown" if the library does not tell.
std::string NcclVersion(const NcclApi& nccl);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_NCCL_API_H_
