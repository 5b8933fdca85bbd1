#ifndef UCUDNN_TESTS_CONTRACT_DEVICE_CONTRACT_H_
#define UCUDNN_TESTS_CONTRACT_DEVICE_CONTRACT_H_

// What every backend of device/device.h must do, as one test suite. A backend
// says how it is opened and what it supports, and instantiates both parts:
//
//   const DeviceContract kContract = {.name = "onednn", .open = ...};
//   INSTANTIATE_TEST_SUITE_P(OneDnn, DeviceContractTest,
//                            ::testing::Values(kContract), ContractName);
//   INSTANTIATE_TEST_SUITE_P(OneDnn, ConvolutionContractTest,
//                            ::testing::ValuesIn(CasesOf(kContract)),
//                            CaseName);
//
// Each such program is a separate test, which can be copied to the machine that
// has the device.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "device/device.h"

namespace ucudnn::test {

// A geometry worth trying, and the batch to try it with.
struct ContractShape {
  std::string name;  // a C++ identifier
  ConvGeometry geometry;
  BatchSize batch;
};

// Ordinary and odd shapes: one pixel, one image, 1024 channels, a group for
// each channel, strides that skip pixels, dilation, unequal heights and widths,
// three dimensions. They are small, so that the reference is quick.
std::vector<ContractShape> StandardShapes();

struct DeviceContract {
  std::string name;
  // kUnavailable means that this machine has no such device: tests are
  // skipped.
  std::function<Result<std::unique_ptr<Device>>()> open;
  std::vector<Precision> precisions;
  std::vector<Layout> layouts;
  std::vector<ContractShape> shapes = StandardShapes();
  // Whether kUnimplemented for a convolution fails the test; if not, the test
  // is skipped.
  bool supports_all = false;
  // Whether Run computes; a replayed device only advances its clock.
  bool computes = true;
  // A convolution that the device must call kUnimplemented.
  std::optional<ConvProblem> unsupported;
};

struct ConvolutionCase {
  DeviceContract contract;
  std::string shape;
  ConvProblem problem;
  BatchSize batch;
};

// Every shape in every operation, precision and layout.
std::vector<ConvolutionCase> CasesOf(const DeviceContract& contract);

// How failures name their parameter.
void PrintTo(const DeviceContract& contract, std::ostream* out);
void PrintTo(const ConvolutionCase& c, std::ostream* out);

std::string ContractName(const ::testing::TestParamInfo<DeviceContract>& info);
std::string CaseName(const ::testing::TestParamInfo<ConvolutionCase>& info);

// Opened once for all tests of one suite.
class DeviceContractTest : public ::testing::TestWithParam<DeviceContract> {
 protected:
  void SetUp() override;
  static void TearDownTestSuite();
  Device* device_ = nullptr;
};

class ConvolutionContractTest
    : public ::testing::TestWithParam<ConvolutionCase> {
 protected:
  void SetUp() override;
  static void TearDownTestSuite();

  const ConvProblem& problem() const { return GetParam().problem; }
  BatchSize batch() const { return GetParam().batch; }

  Device* device_ = nullptr;
  std::vector<Candidate> candidates_;  // of the case
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CONTRACT_DEVICE_CONTRACT_H_
