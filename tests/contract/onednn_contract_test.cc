#include "device/onednn/onednn_device.h"
#include "tests/contract/device_contract.h"

namespace ucudnn::test {
namespace {

Result<std::unique_ptr<Device>> Open() {
  return OpenOneDnnDevice({.threads = 2});
}

// A convolution of one pixel.
ConvProblem OnePixel(Precision precision) {
  ConvProblem problem;
  problem.precision = precision;
  return problem;
}

// With BF16 if this CPU supports it.
std::vector<Precision> Supported() {
  std::vector<Precision> precisions = {Precision::kFp32};
  const auto device = Open();
  if (device &&
      (*device)->ListAlgorithms(OnePixel(Precision::kBf16), BatchSize(1))) {
    precisions.push_back(Precision::kBf16);
  }
  return precisions;
}

DeviceContract Contract() {
  return {.name = "onednn",
          .open = Open,
          .precisions = Supported(),
          .layouts = {Layout::kNchw, Layout::kNhwc},
          .supports_all = true,
          .unsupported = OnePixel(Precision::kTrueHalf)};
}

INSTANTIATE_TEST_SUITE_P(OneDnn, DeviceContractTest,
                         ::testing::Values(Contract()), ContractName);
INSTANTIATE_TEST_SUITE_P(OneDnn, ConvolutionContractTest,
                         ::testing::ValuesIn(CasesOf(Contract())), CaseName);

// FP32's algorithms serve TF32, so a few of the shapes suffice.
DeviceContract Tf32() {
  DeviceContract contract = Contract();
  contract.name = "onednn_tf32";
  contract.precisions = {Precision::kTf32};
  contract.layouts = {Layout::kNchw};
  contract.shapes.resize(3);
  return contract;
}
INSTANTIATE_TEST_SUITE_P(OneDnnTf32, ConvolutionContractTest,
                         ::testing::ValuesIn(CasesOf(Tf32())), CaseName);

}  // namespace
}  // namespace ucudnn::test
