#ifndef UCUDNN_DEVICE_RUN_CHECKS_H_
#define UCUDNN_DEVICE_RUN_CHECKS_H_

// The checks of Convolution::Run before the device touches memory.

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// kInvalidArgument if an operand is missing or the workspace too small.
inline Status CheckRun(const ConvArgs& args, const void* workspace, Bytes given,
                       Bytes needed) {
  if (args.a == nullptr || args.b == nullptr || args.out == nullptr) {
    return Fail(Code::kInvalidArgument,
                "an operand of the convolution is null");
  }
  if (given < needed) {
    return Fail(Code::kInvalidArgument,
                "a workspace of {} bytes was given; {} are needed",
                given.count(), needed.count());
  }
  if (needed > Bytes() && workspace == nullptr) {
    return Fail(Code::kInvalidArgument,
                "the workspace is null; {} bytes are needed", needed.count());
  }
  return {};
}

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_RUN_CHECKS_H_
