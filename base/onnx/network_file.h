#ifndef UCUDNN_BASE_ONNX_NETWORK_FILE_H_
#define UCUDNN_BASE_ONNX_NETWORK_FILE_H_

// Networks from files: convolutions as CSV (base/network.h) or an ONNX model
// (base/onnx/onnx.h), told apart by content, each plain or gzip.

#include <string>
#include <string_view>
#include <vector>

#include "base/graph.h"
#include "base/network.h"
#include "base/onnx/input_shape.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// Whether the contents are text, and therefore read as CSV.
bool IsNetworkCsv(std::string_view contents);

// Sizes for symbolic ones of an ONNX model (base/onnx/input_shape.h).
using InputShapes = std::vector<InputShape>;

// The contents of a network with these sizes. Errors of WithInputShapes;
// kInvalidArgument too for sizes of a network as CSV.
Result<std::string> WithShapes(std::string contents, const InputShapes& shapes,
                               std::string_view source);

// Reads the network from a file's contents. An ONNX model's shapes are inferred
// at `batch`; CSV does not depend on it. Errors as for ParseNetworkCsv and
// ReadOnnx; also kInvalidArgument for a model without convolutions, or with
// more than kMaxLayers (base/limits.h).
Result<Network> ParseNetwork(std::string_view contents, std::string_view name,
                             BatchSize batch, std::string_view source);

// The same as a graph: an ONNX model's, or the chain of the convolutions
// (base/training/chain.h). Errors as for ReadOnnx, ParseNetworkCsv and ChainOf.
Result<Graph> ParseGraph(std::string_view contents, std::string_view name,
                         BatchSize batch, std::string_view source);

// Protocol buffers cannot be larger.
inline constexpr Bytes kMaxNetworkFile = 2_GiB;

// The name that a network from this file gets: the path without folders and
// extension.
std::string NetworkNameOf(std::string_view path);

// A file's contents, with these sizes. The errors of ReadFile
// (base/files/file.h) and WithShapes.
Result<std::string> ReadNetworkContents(const std::string& path,
                                        const InputShapes& shapes,
                                        Bytes max = kMaxNetworkFile);

// The network of a file, after which it is named.
Result<Network> ReadNetworkFile(const std::string& path, BatchSize batch,
                                const InputShapes& shapes = {});

// The graph of an ONNX file. kInvalidArgument for CSV, which has no graph.
Result<Graph> ReadGraphFile(const std::string& path, BatchSize batch,
                            const InputShapes& shapes = {});

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ONNX_NETWORK_FILE_H_
