#include "base/onnx/network_file.h"

#include <algorithm>
#include <utility>

#include "base/files/csv.h"
#include "base/files/file.h"
#include "base/limits.h"
#include "base/onnx/onnx.h"
#include "base/text.h"
#include "base/training/chain.h"

namespace ucudnn {

std::string NetworkNameOf(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view extension : {".gz", ".csv", ".onnx"}) {
    if (name.size() > extension.size() &&
        name.substr(name.size() - extension.size()) == extension) {
      name.remove_suffix(extension.size());
    }
  }
  return Excerpt(name, 200);
}

// An ONNX model begins with protobuf tags and lengths, which are not text.
bool IsNetworkCsv(std::string_view contents) {
  constexpr std::size_t kLookedAt = 4096;
  const std::string_view head = contents.substr(0, kLookedAt);
  if (IsUtf16(head)) return true;
  return std::none_of(head.begin(), head.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' &&
           c != '\r';
  });
}

Result<std::string> WithShapes(std::string contents, const InputShapes& shapes,
                               std::string_view source) {
  if (shapes.empty()) return contents;
  if (IsNetworkCsv(contents)) {
    return Fail(Code::kInvalidArgument,
                "{}: it is text, whose sizes are fixed; input shapes are for "
                "ONNX models",
                source);
  }
  return WithInputShapes(contents, shapes, source);
}

Result<Network> ParseNetwork(std::string_view contents, std::string_view name,
                             BatchSize batch, std::string_view source) {
  if (IsNetworkCsv(contents)) return ParseNetworkCsv(contents, name, source);
  UCUDNN_ASSIGN_OR_RETURN(const Graph graph,
                          ReadOnnx(contents, name, batch, source));
  Network network = NetworkOf(graph);
  if (network.layers.empty()) {
    return Fail(Code::kInvalidArgument,
                "{}: none of the model's {} nodes is a convolution", source,
                graph.nodes.size());
  }
  if (network.layers.size() > kMaxLayers) {
    return Fail(Code::kInvalidArgument,
                "{}: the model has {} convolutions; up to {} are accepted",
                source, network.layers.size(), kMaxLayers);
  }
  return network;
}

Result<Graph> ParseGraph(std::string_view contents, std::string_view name,
                         BatchSize batch, std::string_view source) {
  if (!IsNetworkCsv(contents)) return ReadOnnx(contents, name, batch, source);
  UCUDNN_ASSIGN_OR_RETURN(const Network network,
                          ParseNetworkCsv(contents, name, source));
  Result<Graph> chain = ChainOf(network, batch);
  if (!chain) return Within(source, std::move(chain).error());
  return chain;
}

Result<std::string> ReadNetworkContents(const std::string& path,
                                        const InputShapes& shapes, Bytes max) {
  UCUDNN_ASSIGN_OR_RETURN(std::string contents, ReadFile(path, max));
  if (contents.empty()) {
    return Fail(Code::kInvalidArgument,
                "{}: it is empty; an ONNX model or CSV is accepted",
                Excerpt(path, 4096));
  }
  return WithShapes(std::move(contents), shapes, Excerpt(path, 4096));
}

Result<Network> ReadNetworkFile(const std::string& path, BatchSize batch,
                                const InputShapes& shapes) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string contents,
                          ReadNetworkContents(path, shapes));
  return ParseNetwork(contents, NetworkNameOf(path), batch,
                      Excerpt(path, 4096));
}

Result<Graph> ReadGraphFile(const std::string& path, BatchSize batch,
                            const InputShapes& shapes) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string contents,
                          ReadNetworkContents(path, shapes));
  if (IsNetworkCsv(contents)) {
    return Fail(Code::kInvalidArgument,
                "{}: it is text; an ONNX model is expected",
                Excerpt(path, 4096));
  }
  return ReadOnnx(contents, NetworkNameOf(path), batch, Excerpt(path, 4096));
}

}  // namespace ucudnn
