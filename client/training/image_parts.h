#ifndef UCUDNN_CLIENT_TRAINING_IMAGE_PARTS_H_
#define UCUDNN_CLIENT_TRAINING_IMAGE_PARTS_H_

// Where the inputs of a network lie in the images of a batch. A network has one
// input, which is the whole image, or, if it was split
// (solver/memory/split/split.h), an input for each part of the image.

#include <cstdint>
#include <vector>

#include "base/graph.h"
#include "base/training/graph.h"
#include "device/operators/operators.h"

namespace ucudnn {

// Rows and columns of each channel, and of each slice of a volume. In a
// TrainingBatch, this part of all images begins at element `first`.
struct ImagePart {
  std::int64_t first = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;

  friend bool operator==(const ImagePart&, const ImagePart&) = default;
};

// Of `image`, which `graph` has as one input, or in parts row by row. `planned`
// is the graph of the executor, whose blocks may be larger.
std::vector<ImagePart> ImagePartsOf(const Graph& graph,
                                    const ImageExtent& image,
                                    const TrainingGraph& planned);

// Of one image.
inline std::int64_t ElementsOf(const ImageExtent& extent,
                               const ImagePart& part) {
  return extent.channels * extent.depth * part.rows * part.columns;
}

// Copies a part of one image to where it lies packed.
void CopyPart(const ImageExtent& extent, const float* image,
              const ImagePart& part, float* to);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_IMAGE_PARTS_H_
