#include "tests/client/gradients/fake_nccl.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

struct ncclComm {
  std::string name;
  int rank = 0;
  int ranks = 0;
  int sums = 0;  // started
  bool failed = false;
  std::vector<double> scales;  // by operation, after the plain sum
};

namespace ucudnn::test {
namespace {

constexpr auto kSystemError = static_cast<NcclResult>(2);
constexpr auto kRemoteError = static_cast<NcclResult>(6);

std::string FileOf(const ncclComm& comm, const std::string& what, int rank) {
  return (std::filesystem::path(FakeNccl::Get().folder) /
          fmt::format("{}.{}.{}", comm.name, what, rank))
      .string();
}

// Appears at once, with its contents.
void Publish(const std::string& file, const void* data, std::size_t size) {
  std::ofstream(file + ".new", std::ios::binary)
      .write(static_cast<const char*>(data),
             static_cast<std::streamsize>(size));
  std::filesystem::rename(file + ".new", file);
}

bool AllHave(const ncclComm& comm, const std::string& what) {
  for (int rank = 0; rank < comm.ranks; ++rank) {
    if (!std::filesystem::exists(FileOf(comm, what, rank))) return false;
  }
  return true;
}

template <class T>
void PublishScaled(const ncclComm& comm, const std::string& what,
                   const void* from, std::size_t count, double scale) {
  std::vector<T> scaled(count);
  std::memcpy(scaled.data(), from, count * sizeof(T));
  for (T& value : scaled) value *= static_cast<T>(scale);
  Publish(FileOf(comm, what, comm.rank), scaled.data(), count * sizeof(T));
}

template <class T>
void AddUp(const ncclComm& comm, const std::string& what, void* to,
           std::size_t count) {
  std::vector<T> sum(count);
  std::vector<T> part(count);
  for (int rank = 0; rank < comm.ranks; ++rank) {
    std::ifstream(FileOf(comm, what, rank), std::ios::binary)
        .read(reinterpret_cast<char*>(part.data()),
              static_cast<std::streamsize>(count * sizeof(T)));
    for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
  }
  std::memcpy(to, sum.data(), count * sizeof(T));
}

NcclResult Join(ncclComm** comm, int ranks, NcclId id, int rank,
                NcclConfig* config) {
  if (FakeNccl::Get().refuses) return kSystemError;
  if (config->size < 20 || config->blocking != 0) return kSystemError;
  *comm = new ncclComm;
  (*comm)->name = id.bytes.data();
  (*comm)->rank = rank;
  (*comm)->ranks = ranks;
  Publish(FileOf(**comm, "joined", rank), "", 0);
  return NcclResult::kInProgress;
}

NcclResult State(ncclComm* comm, NcclResult* state) {
  *state = comm->failed               ? kRemoteError
           : AllHave(*comm, "joined") ? NcclResult::kSuccess
                                      : NcclResult::kInProgress;
  return NcclResult::kSuccess;
}

template <class T>
void Enqueue(ncclComm* comm, const std::string& what, const void* from,
             void* to, std::size_t count, double scale) {
  FakeNccl& fake = FakeNccl::Get();
  fake.enqueue([=] {
    PublishScaled<T>(*comm, what, from, count, scale);
    return true;
  });
  fake.enqueue([=] {
    if (!AllHave(*comm, what)) return false;
    AddUp<T>(*comm, what, to, count);
    return true;
  });
}

NcclResult Sum(const void* from, void* to, std::size_t count, NcclType type,
               NcclOp op, ncclComm* comm, CUstream) {
  const int sum = comm->sums++;
  FakeNccl& fake = FakeNccl::Get();
  if (sum == fake.dies_at) _exit(1);
  comm->failed = sum == fake.fails_at;
  if (comm->failed) {
    fake.enqueue([] { return false; });
    return NcclResult::kSuccess;
  }
  const double scale = comm->scales.at(static_cast<std::size_t>(op) - 1);
  const std::string what = fmt::format("sum{}", sum);
  if (type == NcclType::kFloat) {
    Enqueue<float>(comm, what, from, to, count, scale);
  } else {
    Enqueue<double>(comm, what, from, to, count, scale);
  }
  return NcclResult::kSuccess;
}

NcclApi MakeApi() {
  NcclApi api;
  api.GetVersion = [](int* version) {
    *version = 22809;
    return NcclResult::kSuccess;
  };
  api.GetUniqueId = [](NcclId* id) {
    static int made = 0;
    const std::string name = fmt::format("nccl{}", made++);
    std::memcpy(id->bytes.data(), name.c_str(), name.size() + 1);
    return NcclResult::kSuccess;
  };
  api.CommInitRankConfig = Join;
  api.CommGetAsyncError = State;
  api.CommAbort = [](ncclComm*) { return NcclResult::kSuccess; };
  api.RedOpCreatePreMulSum = [](NcclOp* op, void* scalar, NcclType type,
                                NcclResidence, ncclComm* comm) {
    comm->scales.push_back(type == NcclType::kFloat
                               ? *static_cast<float*>(scalar)
                               : *static_cast<double*>(scalar));
    *op = static_cast<NcclOp>(comm->scales.size());
    return NcclResult::kSuccess;
  };
  api.RedOpDestroy = [](NcclOp, ncclComm*) { return NcclResult::kSuccess; };
  api.AllReduce = Sum;
  api.GroupStart = [] { return NcclResult::kSuccess; };
  api.GroupEnd = [] { return NcclResult::kSuccess; };
  api.GetErrorString = [](NcclResult result) {
    return result == kRemoteError ? "remote error" : "system error";
  };
  return api;
}

}  // namespace

FakeNccl& FakeNccl::Get() {
  static FakeNccl fake;
  return fake;
}

const NcclApi& FakeNccl::Api() {
  static const NcclApi kApi = MakeApi();
  return kApi;
}

}  // namespace ucudnn::test
