#ifndef UCUDNN_DEVICE_ONEDNN_HOST_H_
#define UCUDNN_DEVICE_ONEDNN_HOST_H_

// What the operating system tells about this machine.

#include <string>

namespace ucudnn::onednn {

std::string HostName();
// "AMD EPYC 9655"; the architecture where the system tells no model.
std::string CpuModel();
// "Linux 6.1.0"
std::string Kernel();

}  // namespace ucudnn::onednn

#endif  // UCUDNN_DEVICE_ONEDNN_HOST_H_
