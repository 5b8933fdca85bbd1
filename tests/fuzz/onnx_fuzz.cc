#include "base/onnx/network_file.h"
#include "base/onnx/onnx.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// Graphs are in topological order, their indices are in range, and their
// convolutions are valid.
UCUDNN_FUZZ(onnx, text) {
  const auto graph = ReadOnnx(text, "net", BatchSize(8), "fuzz");
  if (!graph) return CheckError(graph.error());
  for (const Tensor& tensor : graph->tensors) {
    UCUDNN_CHECK(tensor.size() >= Bytes(0));
  }
  std::size_t place = 0;
  for (const auto& predecessors : Predecessors(*graph)) {
    for (const std::size_t p : predecessors) UCUDNN_CHECK(p < place);
    ++place;
  }
  for (const ConvLayer& layer : NetworkOf(*graph).layers) {
    UCUDNN_CHECK(Validate(layer.geometry));
    UCUDNN_CHECK(IsPlainText(layer.name) && !layer.name.empty());
  }
}

}  // namespace ucudnn
