#ifndef UCUDNN_TESTS_SUPPORT_RECORDED_DEVICE_H_
#define UCUDNN_TESTS_SUPPORT_RECORDED_DEVICE_H_

// Replays a measured device: it lists the algorithms of a profile with their
// workspaces, and a convolution takes exactly its recorded time. Nothing else
// advances the device's clock, so measurements on it are reproducible and take
// no real time.
//
// It computes nothing: Run checks its workspace and leaves the result
// unchanged. Memory is the host's. Anything that was not recorded is kNotFound,
// naming the kernel, the batch and what was recorded.

#include <memory>
#include <string_view>

#include "base/network.h"
#include "base/profile.h"
#include "base/result.h"
#include "device/device.h"

namespace ucudnn {

// Replays the points of `device` in `profile` for the layers of `network`,
// which gives their geometries. If `device` is empty, there must be only one.
//
// The device's kind is read from its name in the profile if that is a kind's
// text; else the name is the model and the library is "recorded".
//
// kInvalidArgument if several devices could be meant, or if the profile holds
// a layer of the network that the network does not have; kNotFound if nothing
// was recorded of the device and network.
Result<std::unique_ptr<Device>> OpenRecordedDevice(const Profile& profile,
                                                   const Network& network,
                                                   std::string_view device);

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_RECORDED_DEVICE_H_
