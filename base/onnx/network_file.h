#ifndef UCUDNN_BASE_ONNX_NETWORK_FILE_H_
#define UCUDNN_BASE_ONNX_NETWORK_FILE_H_

// Networks from files: convolutions as CSV (base/network.h) or an ONNX model
// (base/onnx/onnx.h), told apart by content, each plain or gzip.

#include <string>
#include <string_view>

#include "base/graph.h"
#include "base/network.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// Whether contents are text, and so to be read as CSV.
bool IsNetworkCsv(std::string_view contents);

// Reads the network from a file's contents. Shapes that CSV does not depend on
// are inferred at `batch`. Errors as ParseNetworkCsv and ReadOnnx have them;
// kInvalidArgument also for a model without convolutions.
Result<Network> ParseNetwork(std::string_view contents, std::string_view name,
                             BatchSize batch, std::string_view source);

// The same from a file; the network is named as the file without its folders
// and extensions. Errors also as ReadFile (base/files/file.h) has them.
Result<Network> ReadNetworkFile(const std::string& path, BatchSize batch);

// The graph of an ONNX file. kInvalidArgument for CSV, which has none.
Result<Graph> ReadGraphFile(const std::string& path, BatchSize batch);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_NETWORK_FILE_H_
