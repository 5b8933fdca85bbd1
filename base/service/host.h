#ifndef UCUDNN_BASE_SERVICE_HOST_H_
#define UCUDNN_BASE_SERVICE_HOST_H_

#include <string>
#include <string_view>

namespace ucudnn {

// This machine's name, as `hostname` prints it; "unknown" if it has none.
std::string HostName();

// The beginning of this machine's id (/etc/machine-id) or, if it has none, as in
// many containers, of its kernel's boot id: differs between machines of one
// name. Empty if there is neither.
std::string MachineId();

// Whether both are names of one machine, in full or shortened: "n1" and
// "n1.cluster.example". Upper and lower case are the same.
bool SameHost(std::string_view a, std::string_view b);

// How many cores this process may use: those that taskset, a cpuset or Slurm
// leave it, and no more than its CPU quota (cgroups), rounded down; at least 1.
int UsableCores();

// How many of a machine's processors are busy, on average over some time.
struct HostLoad {
  double load = 0;  // with anybody's work
  double own = 0;   // with this process's
  int cores = 0;
};

// Measures the load since this object was made. All loads are 0 within the first
// fifth of a second, which is too short to tell.
class HostWatch {
 public:
  HostWatch() : since_(Now()) {}
  HostLoad Load() const;

 private:
  struct Used {
    double seconds, all, own;
  };
  static Used Now();

  Used since_;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_HOST_H_
