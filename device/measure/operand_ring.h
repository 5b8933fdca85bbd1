#ifndef UCUDNN_DEVICE_MEASURE_OPERAND_RING_H_
#define UCUDNN_DEVICE_MEASURE_OPERAND_RING_H_

// Operands for measured runs. In a job each micro-batch has its own slice of
// the mini-batch, which is in the device's cache only by chance. The same holds
// for each run here: runs cycle over images of `round` bytes. The images are
// packed like a mini-batch's, so their alignment is that of a job's. The filter
// and its gradient are the same in all runs, as all micro-batches of a layer
// share them.
//
//   UCUDNN_RETURN_IF_ERROR(ring.Prepare(problem, batch, 2 * cache));
//   convolution->Run(ring.Next(batch), workspace.data(), workspace.size());
//
// Inputs have random values without zeros. Buffers are kept from one problem to
// the next. Belongs to one thread, as its device does.

#include <cstdint>
#include <optional>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// Makes `buffer` at least `size` large without keeping its contents; returns
// whether it was replaced.
Result<bool> GrowBuffer(Device& device, Bytes size, DeviceBuffer* buffer);

class OperandRing {
 public:
  // `device` must outlive the ring.
  explicit OperandRing(Device& device) : device_(device) {}

  // Prepares operands of up to `batch` images for as many runs as touch `round`
  // bytes of images, at least one. Slow only if the buffers must grow or the
  // precision changes. kResourceExhausted if there is too little memory; other
  // errors of the device. After an error there are no operands, and no memory
  // is held.
  Status Prepare(const ConvProblem& problem, BatchSize batch, Bytes round);

  // The number of runs of `batch` images after which operands repeat; 0 if
  // nothing is prepared.
  std::int64_t RoundOf(BatchSize batch) const;

  // The operands of the next run, of at most the prepared number of images,
  // with alpha 1 and beta 0. Takes the host some nanoseconds.
  ConvArgs Next(BatchSize batch);

  // Sets the filter gradient to zero if runs add to it.
  Status ClearFilterGradient();

  // Frees all memory; call Prepare before the next use.
  void Release();

 private:
  struct Operand {
    Bytes size;           // of one run
    bool images = false;  // each run has its own
  };
  struct Operands {
    Operand a, b, out;
  };
  struct Filled {
    DeviceBuffer buffer;
    std::optional<Precision> with;  // the precision of its random values
  };

  Operands OperandsOf(BatchSize batch) const;
  Status Reserve(const Operands& one, std::int64_t runs);
  // The number of runs that touch round_ bytes.
  std::int64_t WantedRound(const Operands& one) const;

  Device& device_;
  ConvProblem problem_;
  Bytes round_;
  Filled a_;
  Filled b_;
  DeviceBuffer out_;
  std::int64_t turns_ = 0;  // so far, over all problems
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_MEASURE_OPERAND_RING_H_
