#include <cstdlib>
#include <string_view>
#include <utility>

#include "device/cudnn/cudnn_device.h"
#include "tests/contract/device_contract.h"

// Both of cuDNN's APIs on the first GPU, or with UCUDNN_TEST_SLICE=sm=32
// on a slice of it. Skipped without a GPU. Thousands of cases: run it in shards
// (GTEST_TOTAL_SHARDS, GTEST_SHARD_INDEX), one per processor.

namespace ucudnn::test {
namespace {

Result<std::unique_ptr<Device>> Open(bool legacy, bool graph) {
  CudnnOptions options;
  options.ordinals = {0};
  options.legacy = legacy;
  options.graph = graph;
  options.branches = true;
  options.listing_threads = 2;
  if (const char* slice = std::getenv("UCUDNN_TEST_SLICE")) {
    UCUDNN_ASSIGN_OR_RETURN(options.slice_sms, ParseSlice(slice));
  }
  UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenCudnnDevices(options));
  return std::move(devices.front());
}

DeviceContract Contract(std::string name, bool legacy, bool graph) {
  DeviceContract contract;
  contract.name = std::move(name);
  contract.open = [=] { return Open(legacy, graph); };
  contract.precisions.assign(kPrecisions.begin(), kPrecisions.end());
  contract.layouts.assign(kLayouts.begin(), kLayouts.end());
  return contract;
}

const DeviceContract kLegacy = Contract("legacy", true, false);
const DeviceContract kGraph = Contract("graph", false, true);

INSTANTIATE_TEST_SUITE_P(Cudnn, DeviceContractTest,
                         ::testing::Values(kLegacy, kGraph), ContractName);
INSTANTIATE_TEST_SUITE_P(CudnnLegacy, ConvolutionContractTest,
                         ::testing::ValuesIn(CasesOf(kLegacy)), CaseName);
INSTANTIATE_TEST_SUITE_P(CudnnGraph, ConvolutionContractTest,
                         ::testing::ValuesIn(CasesOf(kGraph)), CaseName);

}  // namespace
}  // namespace ucudnn::test
