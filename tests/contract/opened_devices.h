#ifndef UCUDNN_TESTS_CONTRACT_OPENED_DEVICES_H_
#define UCUDNN_TESTS_CONTRACT_OPENED_DEVICES_H_

// Shared by both parts of the device contract: open devices and assertions
// about results.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "tests/contract/device_contract.h"

#define ASSERT_OK(expression)                                         \
  do {                                                                \
    const auto& ok_ = (expression);                                   \
    ASSERT_TRUE(ok_.has_value())                                      \
        << CodeName(ok_.error().code) << ": " << ok_.error().message; \
  } while (false)
#define EXPECT_CODE(expected, expression)                       \
  do {                                                          \
    const auto& ok_ = (expression);                             \
    EXPECT_FALSE(ok_.has_value());                              \
    if (!ok_.has_value()) {                                     \
      EXPECT_EQ(CodeName(ok_.error().code), CodeName(expected)) \
          << ok_.error().message;                               \
      EXPECT_NE(ok_.error().message, "");                       \
    }                                                           \
  } while (false)

namespace ucudnn::test {

// The devices that the tests of the running suite use.
using Opened = std::map<std::string, Result<std::unique_ptr<Device>>>;
inline Opened& OpenedDevices() {
  static Opened devices;
  return devices;
}

inline Result<std::unique_ptr<Device>>& OpenedFor(
    const DeviceContract& contract) {
  const auto known = OpenedDevices().find(contract.name);
  if (known != OpenedDevices().end()) return known->second;
  return OpenedDevices().emplace(contract.name, contract.open()).first->second;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CONTRACT_OPENED_DEVICES_H_
