#ifndef UCUDNN_TESTS_GPU_COLD_ROW_H_
#define UCUDNN_TESTS_GPU_COLD_ROW_H_

// Operands for running the kernels of a training iteration in a row.

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/network.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn::cold {

// Operands of every kernel of a network for one batch: images, gradients and
// filters for each layer. Inputs are random, without zeros.
class RowOperands {
 public:
  // `apart`: for each kernel instead of each layer, so that no two kernels have
  // any in common.
  static Result<std::unique_ptr<RowOperands>> Create(
      Device& device, const std::vector<Kernel>& kernels, BatchSize batch,
      bool apart);

  // Shared operands, as in a rehearsal and the drop-in handle's timing: all
  // kernels use the same three places.
  ConvArgs Shared() const;
  // Those of the kernel's layer, or its own.
  ConvArgs Own(const Kernel& kernel) const;

  // Kernel indices in the order of a training iteration: forward layer by
  // layer, then back.
  static std::vector<std::size_t> TrainingOrder(
      const std::vector<Kernel>& kernels);

 private:
  std::string KeyOf(const Kernel& kernel) const;

  struct Places {  // one layer's or kernel's offsets in the buffers, in bytes
    std::int64_t input = 0;
    std::int64_t output = 0;
    std::int64_t filter = 0;
  };

  bool apart_ = false;
  std::map<std::string, Places> places_;  // by KeyOf
  DeviceBuffer input_;
  DeviceBuffer input_gradient_;
  DeviceBuffer output_;
  DeviceBuffer output_gradient_;
  DeviceBuffer filter_;
  DeviceBuffer filter_gradient_;
};

}  // namespace ucudnn::cold

#endif  // UCUDNN_TESTS_GPU_COLD_ROW_H_
