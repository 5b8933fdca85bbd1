#include "client/training/image_parts.h"

#include <algorithm>

namespace ucudnn {

std::vector<ImagePart> ImagePartsOf(const Graph& graph,
                                    const ImageExtent& image,
                                    const TrainingGraph& planned) {
  std::vector<bool> computed(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    for (const std::size_t tensor : node.outputs) computed[tensor] = true;
  }
  std::vector<ImagePart> parts;
  std::int64_t first = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  auto block = planned.blocks.begin();
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (computed[t] || tensor.parameter || !tensor.floating) continue;
    const bool whole = tensor.shape.size() != 4;
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
  for (std::int64_t channel = 0; channel < extent.channels; ++channel) {
    for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
      const float* const from =
          image + (channel * extent.height + row) * extent.width + part.column;
      to = std::copy_n(from, part.columns, to);
    }
  }
}

}  // namespace ucudnn
