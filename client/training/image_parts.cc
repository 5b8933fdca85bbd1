#include "client/training/image_parts.h"

#include <algorithm>
#include <cstddef>

#include "base/training/dataflow.h"

namespace ucudnn {

std::vector<ImagePart> ImagePartsOf(const Graph& graph,
                                    const ImageExtent& image,
                                    const TrainingGraph& planned) {
  std::vector<ImagePart> parts;
  std::int64_t first = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  auto block = planned.blocks.begin();
  for (const std::size_t input : InputsOf(graph)) {
    const Tensor& tensor = graph.tensors[input];
    const bool whole = tensor.shape.size() < 4;
    const ImagePart& part = parts.emplace_back(
        ImagePart{first, row, whole ? image.height : tensor.shape.end()[-2],
                  column, whole ? image.width : tensor.shape.back()});
    // Inputs are the first blocks, in this order.
    first +=
        (block++)->SizeAt(planned.batch).count() / std::int64_t{sizeof(float)};
    column += part.columns;
    if (column < image.width) continue;
    column = 0;
    row += part.rows;
  }
  return parts;
}

void CopyPart(const ImageExtent& extent, const float* image,
              const ImagePart& part, float* to) {
  const std::int64_t slices = extent.channels * extent.depth;
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
      const float* const from =
          image + (slice * extent.height + row) * extent.width + part.column;
      to = std::copy_n(from, part.columns, to);
    }
  }
}

}  // namespace ucudnn
