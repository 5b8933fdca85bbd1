#include "client/ranks/device_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/units.h"

namespace ucudnn {
namespace {

// Matches as many ranks as possible to `free` GPUs, by augmenting paths.
class Matching {
 public:
  Matching(const std::vector<VisibleDevices>& ranks, std::set<std::string> free)
      : ranks_(ranks), free_(std::move(free)) {}

  // Whether the rank got a GPU; may move other ranks to different ones.
  bool Place(std::size_t rank) {
    tried_.clear();
    return Augment(rank);
  }
  const std::map<std::string, std::size_t>& rank_of() const { return rank_of_; }

 private:
  bool Augment(std::size_t rank) {
    // Take a free GPU if there is one, without moving other ranks.
    for (const std::string& gpu : ranks_[rank].gpus) {
      if (free_.contains(gpu) && rank_of_.emplace(gpu, rank).second) {
        return true;
      }
    }
    for (const std::string& gpu : ranks_[rank].gpus) {
      if (!free_.contains(gpu) || !tried_.insert(gpu).second) continue;
      if (Augment(rank_of_.at(gpu))) {
        rank_of_[gpu] = rank;
        return true;
      }
    }
    return false;
  }

  const std::vector<VisibleDevices>& ranks_;
  const std::set<std::string> free_;
  std::set<std::string> tried_;
  std::map<std::string, std::size_t> rank_of_;
};

int OrdinalOf(const VisibleDevices& rank, const std::string& uuid) {
  const auto found = std::find(rank.gpus.begin(), rank.gpus.end(), uuid);
  return static_cast<int>(found - rank.gpus.begin());
}

// The GPU that a rank requests or uses; -1: any, or the CPU.
Result<int> Chosen(const VisibleDevices& rank) {
  const int count = static_cast<int>(rank.gpus.size());
  switch (rank.request.kind) {
    case DeviceRequest::Kind::kCpu:
      return -1;
    case DeviceRequest::Kind::kAuto:
      return rank.current;
    case DeviceRequest::Kind::kGpuOrdinal:
      if (rank.request.ordinal < count) return rank.request.ordinal;
      return Fail(Code::kInvalidArgument,
                  "there is no gpu:{}; this rank sees {}", rank.request.ordinal,
                  count == 0 ? std::string("no GPU")
                             : fmt::format("{}, counted from 0", count));
    case DeviceRequest::Kind::kGpuUuid:
      break;
  }
  const int ordinal = OrdinalOf(rank, rank.request.uuid);
  if (ordinal < count) return ordinal;
  return Fail(Code::kInvalidArgument, "this rank does not see {}; it sees {}",
              rank.request.uuid,
              count == 0 ? std::string("no GPU")
                         : fmt::format("{}", fmt::join(rank.gpus, ", ")));
}

void ShareCpus(const std::vector<VisibleDevices>& ranks,
               std::vector<DeviceChoice>* choices) {
  std::map<std::string, int> on_host;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if ((*choices)[r].gpu >= 0) continue;
    (*choices)[r].cpu_index = on_host[ranks[r].host]++;
    (*choices)[r].cpu_threads = ranks[r].request.threads;
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if ((*choices)[r].gpu >= 0) continue;
    (*choices)[r].cpu_devices = on_host[ranks[r].host];
  }
}

}  // namespace

Result<DeviceRequest> ParseDeviceRequest(std::string_view text) {
  DeviceRequest request;
  if (text == "auto") return request;
  if (text.starts_with("GPU-") || text.starts_with("MIG-")) {
    request.kind = DeviceRequest::Kind::kGpuUuid;
    request.uuid = text;
    return request;
  }
  if (text.starts_with("gpu:")) {
    if (const auto ordinal = ParseInteger(text.substr(4), 0, 1023)) {
      request.kind = DeviceRequest::Kind::kGpuOrdinal;
      request.ordinal = static_cast<int>(*ordinal);
      return request;
    }
  }
  if (text == "cpu" || text.starts_with("cpu:")) {
    request.kind = DeviceRequest::Kind::kCpu;
    if (text == "cpu") return request;
    if (const auto threads = ParseInteger(text.substr(4), 1, 4096)) {
      request.threads = static_cast<int>(*threads);
      return request;
    }
  }
  return Fail(Code::kInvalidArgument,
              "device is '{}'; auto, gpu:N, a GPU's UUID, cpu and cpu:THREADS "
              "are accepted",
              Excerpt(text, 80));
}

Result<std::vector<DeviceChoice>> ChooseDevices(
    const std::vector<VisibleDevices>& ranks) {
  std::vector<DeviceChoice> choices(ranks.size());
  std::map<std::string, int> users;  // by GPU
  std::set<std::string> free;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const std::string& gpu : ranks[r].gpus) users.emplace(gpu, 0);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Result<int> chosen = Chosen(ranks[r]);
    if (!chosen) return Within(fmt::format("rank {}", r), chosen.error());
    choices[r].gpu = *chosen;
    if (*chosen >= 0) ++users[ranks[r].gpus[static_cast<std::size_t>(*chosen)]];
  }
  for (const auto& [gpu, count] : users) {
    if (count == 0) free.insert(gpu);
  }
  const auto wants_any = [&](std::size_t r) {
    return choices[r].gpu < 0 && !ranks[r].gpus.empty() &&
           ranks[r].request.kind == DeviceRequest::Kind::kAuto;
  };
  Matching matching(ranks, std::move(free));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (wants_any(r)) matching.Place(r);
  }
  for (const auto& [gpu, rank] : matching.rank_of()) {
    choices[rank].gpu = OrdinalOf(ranks[rank], gpu);
    ++users[gpu];
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!wants_any(r)) continue;
    const std::string& gpu = *std::min_element(
        ranks[r].gpus.begin(), ranks[r].gpus.end(),
        [&](const auto& a, const auto& b) { return users[a] < users[b]; });
    choices[r].gpu = OrdinalOf(ranks[r], gpu);
    ++users[gpu];
  }
  ShareCpus(ranks, &choices);
  return choices;
}

}  // namespace ucudnn
