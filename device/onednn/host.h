#ifndef UCUDNN_DEVICE_ONEDNN_HOST_H_
#define UCUDNN_DEVICE_ONEDNN_HOST_H_

// What the operating system reports about this machine.

#include <string>

#include "base/units.h"

namespace ucudnn::onednn {

// "AMD EPYC 9655"; the architecture if the system reports no model.
std::string CpuModel();
// "Linux 6.1.0"
std::string Kernel();
// The cache that the cores share; 0 if unknown.
Bytes LastLevelCache();

}  // namespace ucudnn::onednn

#endif  // UCUDNN_DEVICE_ONEDNN_HOST_H_
