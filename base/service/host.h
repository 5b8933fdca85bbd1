#ifndef UCUDNN_BASE_SERVICE_HOST_H_
#define UCUDNN_BASE_SERVICE_HOST_H_

#include <string>

namespace ucudnn {

// This machine's name, as `hostname` prints it; "unknown" if it has none.
std::string HostName();

// How much work a machine does.
struct HostLoad {
  double load = 0;  // processes that compute, on average over a minute
  int cores = 0;

  // Whether it has so much more work than cores that nothing measured on them
  // can be compared.
  bool Busy() const;
};

// This machine's.
HostLoad ReadHostLoad();

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_HOST_H_
