#ifndef UCUDNN_TESTS_CONTRACT_OPERATORS_CONTRACT_H_
#define UCUDNN_TESTS_CONTRACT_OPERATORS_CONTRACT_H_

// What every backend of device/operators/operators.h must do: its results
// against straightforward references.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn::test {

struct OperatorsContract {
  std::string name;
  // kUnavailable means that this machine has no such device: tests are
  // skipped.
  std::function<Result<std::unique_ptr<Device>>()> open;
  std::function<Result<std::unique_ptr<Operators>>(Device&)> operators;
};

class OperatorsContractTest
    : public ::testing::TestWithParam<OperatorsContract> {
 protected:
  void SetUp() override;

  // Device memory with these values.
  template <class T>
  T* Put(const std::vector<T>& values) {
    return static_cast<T*>(PutBytes(values.data(), values.size() * sizeof(T)));
  }
  // Device memory that holds NaN.
  float* Nan(std::size_t count);
  template <class T>
  std::vector<T> Get(const T* data, std::size_t count) {
    std::vector<T> values(count);
    GetBytes(data, values.data(), count * sizeof(T));
    return values;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Operators> operators_;

 private:
  void* PutBytes(const void* data, std::size_t size);
  void GetBytes(const void* data, void* to, std::size_t size);
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CONTRACT_OPERATORS_CONTRACT_H_
