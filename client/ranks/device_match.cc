#include "client/ranks/device_match.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/units.h"

namespace ucudnn {
namespace {

// Finds as many ranks as possible a GPU that is `free`, by augmenting paths.
class Matching {
 public:
  Matching(const std::vector<RankSight>& ranks, std::set<std::string> free)
      : ranks_(ranks), free_(std::move(free)) {}

  // Whether the rank got one, perhaps by giving others another.
  bool Place(std::size_t rank) {
    tried_.clear();
    return Augment(rank);
  }
  const std::map<std::string, std::size_t>& rank_of() const { return rank_of_; }

 private:
  bool Augment(std::size_t rank) {
    // Nobody is moved without need.
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

  const std::vector<RankSight>& ranks_;
  const std::set<std::string> free_;
  std::set<std::string> tried_;
  std::map<std::string, std::size_t> rank_of_;
};

int OrdinalOf(const RankSight& rank, const std::string& uuid) {
  const auto found = std::find(rank.gpus.begin(), rank.gpus.end(), uuid);
  return static_cast<int>(found - rank.gpus.begin());
}

// The GPU that a rank has asked for or works on; -1: any, or none.
Result<int> Chosen(const RankSight& rank) {
  const int count = static_cast<int>(rank.gpus.size());
  switch (rank.wish.kind) {
    case DeviceWish::Kind::kCpu:
      return -1;
    case DeviceWish::Kind::kAuto:
      return rank.current;
    case DeviceWish::Kind::kGpuOrdinal:
      if (rank.wish.ordinal < count) return rank.wish.ordinal;
      return Fail(Code::kInvalidArgument,
                  "there is no GPU {}; it sees {}, counted from 0",
                  rank.wish.ordinal, count);
    case DeviceWish::Kind::kGpuUuid:
      break;
  }
  const int ordinal = OrdinalOf(rank, rank.wish.uuid);
  if (ordinal < count) return ordinal;
  return Fail(Code::kInvalidArgument, "it does not see {}; it sees {}",
              rank.wish.uuid,
              count == 0 ? std::string("no GPU")
                         : fmt::format("{}", fmt::join(rank.gpus, ", ")));
}

void ShareCpus(const std::vector<RankSight>& ranks,
               std::vector<DeviceChoice>* choices) {
  std::map<std::string, int> on_host;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if ((*choices)[r].gpu >= 0) continue;
    (*choices)[r].cpu_index = on_host[ranks[r].host]++;
    (*choices)[r].cpu_threads = ranks[r].wish.threads;
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if ((*choices)[r].gpu >= 0) continue;
    (*choices)[r].cpu_devices = on_host[ranks[r].host];
  }
}

}  // namespace

Result<DeviceWish> ParseDeviceWish(std::string_view text) {
  DeviceWish wish;
  if (text == "auto") return wish;
  if (text.starts_with("GPU-") || text.starts_with("MIG-")) {
    wish.kind = DeviceWish::Kind::kGpuUuid;
    wish.uuid = text;
    return wish;
  }
  if (text.starts_with("gpu:")) {
    if (const auto ordinal = ParseInteger(text.substr(4), 0, 1023)) {
      wish.kind = DeviceWish::Kind::kGpuOrdinal;
      wish.ordinal = static_cast<int>(*ordinal);
      return wish;
    }
  }
  if (text == "cpu" || text.starts_with("cpu:")) {
    wish.kind = DeviceWish::Kind::kCpu;
    if (text == "cpu") return wish;
    if (const auto threads = ParseInteger(text.substr(4), 1, 4096)) {
      wish.threads = static_cast<int>(*threads);
      return wish;
    }
  }
  return Fail(Code::kInvalidArgument,
              "device is '{}'; auto, gpu:N, a GPU's UUID, cpu and cpu:THREADS "
              "are accepted",
              text.substr(0, 80));
}

Result<std::vector<DeviceChoice>> ChooseDevices(
    const std::vector<RankSight>& ranks) {
  std::vector<DeviceChoice> choices(ranks.size());
  std::map<std::string, int> users;  // of each GPU
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
           ranks[r].wish.kind == DeviceWish::Kind::kAuto;
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
