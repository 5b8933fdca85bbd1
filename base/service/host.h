#ifndef UCUDNN_BASE_SERVICE_HOST_H_
#define UCUDNN_BASE_SERVICE_HOST_H_

#include <string>

namespace ucudnn {

// This machine's name, as `hostname` prints it; "unknown" if it has none.
std::string HostName();

// How many of a machine's processors are busy, on average over some time.
struct HostLoad {
  double load = 0;  // with anybody's work
  double own = 0;   // with this process's
  int cores = 0;
};

// Measures that from when it is made; 0 within the first fifth of a second.
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
