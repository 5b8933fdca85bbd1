#ifndef UCUDNN_BASE_SERVICE_CGROUP_H_
#define UCUDNN_BASE_SERVICE_CGROUP_H_

// What a container, a Slurm job or a service manager lets this process use:
// the limits of its control groups, of version 1 or 2, and of those above them.

#include <optional>
#include <string>

#include "base/units.h"

namespace ucudnn {

struct CgroupLimits {
  std::optional<double> cpus;   // its share of time, in cores: 0.5, 3
  std::optional<Bytes> memory;  // what is left of it
};

// What has no limit, or no readable one, is absent. `root` is "/" but in tests.
CgroupLimits ReadCgroupLimits(const std::string& root = "/");

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_CGROUP_H_
