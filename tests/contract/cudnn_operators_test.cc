#include <utility>

#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/operators/operators.h"
#include "tests/contract/operators_contract.h"

// On the first GPU; skipped without one. Linked with the fake GPU, on that.

namespace ucudnn::test {
namespace {

Result<std::unique_ptr<Device>> OpenFirstGpu() {
  CudnnOptions options;
  options.ordinals = {0};
  UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenCudnnDevices(options));
  return std::move(devices.front());
}

INSTANTIATE_TEST_SUITE_P(
    Cudnn, OperatorsContractTest,
    ::testing::Values(OperatorsContract{.name = "cudnn",
                                        .open = OpenFirstGpu,
                                        .operators = OpenCudnnOperators}),
    [](const auto& contract) { return contract.param.name; });

}  // namespace
}  // namespace ucudnn::test
