#include "device/onednn/onednn_device.h"
#include "device/onednn/operators.h"
#include "tests/contract/operators_contract.h"

namespace ucudnn::test {
namespace {

INSTANTIATE_TEST_SUITE_P(
    OneDnn, OperatorsContractTest,
    ::testing::Values(OperatorsContract{
        .name = "onednn",
        .open = [] { return OpenOneDnnDevice({.threads = 2}); },
        .operators = [](Device& device) -> Result<std::unique_ptr<Operators>> {
          return OpenOneDnnOperators(device);
        }}),
    [](const auto& contract) { return contract.param.name; });

}  // namespace
}  // namespace ucudnn::test
