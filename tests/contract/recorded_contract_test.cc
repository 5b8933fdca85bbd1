#include "tests/contract/device_contract.h"
#include "tests/support/recorded_device.h"

namespace ucudnn::test {
namespace {

// Two algorithms for each kernel of a network of the standard
// shapes.
Result<std::unique_ptr<Device>> Open() {
  Network network{"net", {}};
  Profile profile;
  for (const ContractShape& shape : StandardShapes()) {
    network.layers.push_back({shape.name, shape.geometry});
    for (const ConvOp op : kConvOps) {
      MeasuredPoint gemm{shape.batch,
                         Algorithm{"GEMM", "FMA", Precision::kFp32}, Bytes(),
                         std::chrono::microseconds(30)};
      MeasuredPoint fft{shape.batch, Algorithm{"FFT", "FMA", Precision::kFp32},
                        1_MiB, std::chrono::microseconds(10)};
      profile.kernels.push_back(
          {KernelId{"NVIDIA H200/132u/139GiB/cudnn-9.19", "net", shape.name, op,
                    Precision::kFp32, Layout::kNchw},
           {gemm, fft}});
    }
  }
  return OpenRecordedDevice(profile, network, "");
}

DeviceContract Contract() {
  return {.name = "recorded",
          .open = Open,
          .precisions = {Precision::kFp32, Precision::kTf32},
          .layouts = {Layout::kNchw},
          .supports_all = true,
          .computes = false,
          .unsupported = std::nullopt};
}

INSTANTIATE_TEST_SUITE_P(Recorded, DeviceContractTest,
                         ::testing::Values(Contract()), ContractName);
INSTANTIATE_TEST_SUITE_P(Recorded, ConvolutionContractTest,
                         ::testing::ValuesIn(CasesOf(Contract())), CaseName);

}  // namespace
}  // namespace ucudnn::test
