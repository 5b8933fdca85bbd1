#include "client/train/drawn_steps.h"

#include <cstddef>

namespace ucudnn::train {
namespace {

// Between the numbers that draws of consecutive steps follow from, so that they
// are not those of other seeds.
constexpr std::uint64_t kDrawDistance = 0x9E3779B97F4A7C15U;

}  // namespace

void DrawnSteps::Reset() {
  for (DrawnStep& drawn : steps_) {
    drawn = {.parts = ImagePartsOf(job_.network->graph, job_.data->extent(),
                                   job_.network->training)};
  }
}

Result<const DrawnStep*> DrawnSteps::At(std::int64_t step) {
  DrawnStep& drawn = steps_[static_cast<std::size_t>(step % 2)];
  if (!draws() || drawn.step == step) return &drawn;
  UCUDNN_ASSIGN_OR_RETURN(
      drawn.network,
      DrawTraining(
          *job_.network, job_.input,
          options_.seed + static_cast<std::uint64_t>(step) * kDrawDistance));
  drawn.parts = ImagePartsOf(drawn.network->graph, job_.data->extent(),
                             job_.network->training);
  drawn.step = step;
  return &drawn;
}

}  // namespace ucudnn::train
