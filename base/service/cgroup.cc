#include "base/service/cgroup.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

namespace ucudnn {
namespace {

namespace fs = std::filesystem;

// The folder that holds the files of one control group.
struct Group {
  fs::path folder;
  bool second = false;  // version 2, not 1

  // The numbers at the beginning of the file `name`. None if there is no such
  // file, or if it begins with "max", which means that there is no limit.
  std::vector<std::int64_t> Numbers(const char* name) const {
    std::ifstream file(folder / name);
    return {std::istream_iterator<std::int64_t>(file), {}};
  }
};

// Whether a list such as "cpu,cpuacct" has the controller.
bool Has(const std::string& list, const std::string& controller) {
  return ("," + list + ",").find("," + controller + ",") != std::string::npos;
}

// This process's group of the controller and those above it, as far as they are
// mounted, in each version's hierarchy.
std::vector<Group> GroupsOf(const fs::path& root,
                            const std::string& controller) {
  // "4:memory:/job" of version 1, "0::/job" of version 2.
  std::map<bool, std::string> own;
  std::ifstream memberships(root / "proc/self/cgroup");
  for (std::string number, controllers, path;
       std::getline(memberships, number, ':') && std::getline(memberships, controllers, ':') &&
       std::getline(memberships, path);) {
    if (controllers.empty() || Has(controllers, controller)) {
      own[controllers.empty()] = path;
    }
  }
  std::vector<Group> groups;
  // "31 23 0:27 /begin /place rw - cgroup cgroup rw,memory"
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::string skipped;
    std::string begin;
    std::string place;
    std::string type;
    std::string options;
    std::istringstream words(line);
    words >> skipped >> skipped >> skipped >> begin >> place;
    while (words >> skipped && skipped != "-") {
    }
    words >> type >> skipped >> options;
    const bool second = type == "cgroup2";
    const auto path = own.find(second);
    if (path == own.end() ||
        (!second && (type != "cgroup" || !Has(options, controller)))) {
      continue;
    }
    fs::path below = fs::path(path->second).lexically_relative(begin);
    // In a container, the path may be the one that the host sees.
    if (below.empty() || *below.begin() == "..") below = ".";
    const fs::path top = root / fs::path(place).relative_path();
    for (; !below.empty() && below != "."; below = below.parent_path()) {
      groups.push_back({top / below, second});
    }
    groups.push_back({top, second});
  }
  return groups;
}

std::optional<double> CpusOf(const Group& group) {
  auto quota = group.Numbers(group.second ? "cpu.max" : "cpu.cfs_quota_us");
  if (!group.second) {
    std::ranges::copy(group.Numbers("cpu.cfs_period_us"),
                      std::back_inserter(quota));
  }
  if (quota.size() < 2 || quota[0] <= 0 || quota[1] <= 0) return std::nullopt;
  return static_cast<double>(quota[0]) / static_cast<double>(quota[1]);
}

std::optional<Bytes> MemoryOf(const Group& group) {
  const bool second = group.second;
  const auto limit =
      group.Numbers(second ? "memory.max" : "memory.limit_in_bytes");
  auto used = group.Numbers(second ? "memory.current" : "memory.usage_in_bytes");
  if (limit.empty() || used.empty()) return std::nullopt;
  std::ifstream stat(group.folder / "memory.stat");
  std::string name;
  for (std::int64_t bytes = 0; stat >> name >> bytes;) {
    // Of files, which the kernel drops when memory is short.
    if (name == (second ? "inactive_file" : "total_inactive_file")) {
      used[0] -= bytes;
    }
  }
  return std::max(Bytes(limit[0] - std::max<std::int64_t>(used[0], 0)), Bytes());
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  CgroupLimits limits;
  const auto keep_less = [](auto* least, const auto& other) {
    if (other && (!*least || *other < **least)) *least = other;
  };
  for (const Group& group : GroupsOf(root, "cpu")) {
    keep_less(&limits.cpus, CpusOf(group));
  }
  for (const Group& group : GroupsOf(root, "memory")) {
    keep_less(&limits.memory, MemoryOf(group));
  }
  return limits;
}

}  // namespace ucudnn
