#ifndef UCUDNN_DEVICE_MEASURE_OPERAND_RING_H_
#define UCUDNN_DEVICE_MEASURE_OPERAND_RING_H_

// Operands for runs that are measured. In a job each micro-batch has a slice of
// the mini-batch of its own, which is in the device's cache only by chance. So
// has each run here: the images of `round` bytes are taken in turns, and then
// again from the first. They lie packed, as a mini-batch's do, so they are
// aligned as a job's are. The filter and its gradient are the same in all runs,
// as all micro-batches of a layer share them.
//
//   UCUDNN_RETURN_IF_ERROR(ring.Prepare(problem, batch, 2 * cache));
//   convolution->Run(ring.Next(batch), workspace.data(), workspace.size());
//
// What is read has random values without zeros. Buffers are kept from one
// problem to the next. Belongs to one thread, as its device does.

#include <cstdint>
#include <optional>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// Makes `buffer` at least `size` large, keeping nothing of what was in it;
// whether it is another one now.
Result<bool> GrowBuffer(Device& device, Bytes size, DeviceBuffer* buffer);

class OperandRing {
 public:
  // `device` must outlive the ring.
  explicit OperandRing(Device& device) : device_(device) {}

  // Has operands of up to `batch` images ready: for as many runs as touch
  // `round` bytes of images, one at least. What takes time is done only if the
  // buffers must grow, or for another precision. kResourceExhausted if there is
  // no memory for so many; what the device reports. After an error there are no
  // operands, and no memory is held.
  Status Prepare(const ConvProblem& problem, BatchSize batch, Bytes round);

  // After how many runs of `batch` images the first one's operands come again;
  // 0 if nothing is prepared.
  std::int64_t RoundOf(BatchSize batch) const;

  // The operands of the next run, which has no more images than are prepared,
  // alpha and beta 1 and 0. Takes the host some nanoseconds.
  ConvArgs Next(BatchSize batch);

  // Where runs add to a filter gradient: begins from zero.
  Status ClearFilterGradient();

  // Frees all memory; Prepare comes next.
  void Release();

 private:
  struct Operand {
    Bytes size;           // of one run
    bool images = false;  // of which each run has its own
  };
  struct Operands {
    Operand a, b, out;
  };
  struct Filled {
    DeviceBuffer buffer;
    std::optional<Precision> with;  // random values of it
  };

  Operands OperandsOf(BatchSize batch) const;
  Status Reserve(const Operands& one, std::int64_t runs);
  // So many runs make a round of round_ bytes.
  std::int64_t WantedRound(const Operands& one) const;

  Device& device_;
  ConvProblem problem_;
  Bytes round_;
  Filled a_;
  Filled b_;
  DeviceBuffer out_;
  std::int64_t turns_ = 0;  // taken so far, of all problems
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_MEASURE_OPERAND_RING_H_
