#ifndef UCUDNN_DEVICE_RECORDED_RECORDED_DEVICE_H_
#define UCUDNN_DEVICE_RECORDED_RECORDED_DEVICE_H_

// A device that was measured once, replayed: it lists the algorithms of a
// profile with their workspaces, and a convolution takes exactly the time that
// was recorded. Time stands still otherwise, so that what is measured on it is
// the same each time and takes none.
//
// It computes nothing: Run checks its workspace and leaves the result as it
// is. Memory is the host's. What was not recorded is refused: kNotFound,
// naming the kernel, the batch and what there is.

#include <memory>
#include <string_view>

#include "base/network.h"
#include "base/profile.h"
#include "base/result.h"
#include "device/device.h"

namespace ucudnn {

// Replays what `profile` holds of `device` for the layers of `network`, whose
// geometries it takes from there. With an empty `device` there must be one
// only.
//
// The device's kind is read from its name in the profile if that is a kind's
// text; else the name is the model, of a library "recorded".
//
// kInvalidArgument if several devices could be meant, or if the profile holds
// a layer of the network that the network does not have; kNotFound if nothing
// was recorded of the device and network.
Result<std::unique_ptr<Device>> OpenRecordedDevice(const Profile& profile,
                                                   const Network& network,
                                                   std::string_view device);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_RECORDED_RECORDED_DEVICE_H_
