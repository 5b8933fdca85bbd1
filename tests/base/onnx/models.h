#ifndef UCUDNN_TESTS_BASE_ONNX_MODELS_H_
#define UCUDNN_TESTS_BASE_ONNX_MODELS_H_

// Small ONNX models as text, and helpers that read them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>

#include "base/network.h"
#include "base/onnx/onnx.h"

namespace ucudnn::test {

// A model from ONNX's own text form.
inline onnx::ModelProto OnnxModel(const std::string& graph, int opset = 17) {
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(
      model, fmt::format("<ir_version: 8, opset_import: [\"\" : {}]>\n{}",
                         opset, graph)
                 .c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

inline Result<Graph> ReadModel(const onnx::ModelProto& model,
                               std::int64_t batch = 8) {
  return ReadOnnx(model.SerializeAsString(), "net", BatchSize(batch), "m.onnx");
}

inline Graph ParsedModel(const std::string& graph) {
  auto result = ReadModel(OnnxModel(graph));
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(Graph());
}

inline Error ModelError(const Result<Graph>& graph) {
  if (graph) return {Code::kOk, "no error"};
  EXPECT_THAT(graph.error().message, ::testing::StartsWith("m.onnx: "));
  return graph.error();
}

inline Error ModelError(const std::string& graph) {
  return ModelError(ReadModel(OnnxModel(graph)));
}

// A graph of the single convolution `node`, from x to y.
inline std::string SingleNode(const std::string& x, const std::string& w,
                              const std::string& node) {
  return "g (float[" + x + "] x, float[" + w +
         "] w) => (float y) { y = " + node + " }";
}

inline ConvLayer SingleLayer(const std::string& x, const std::string& w,
                             const std::string& node) {
  const Network network = NetworkOf(ParsedModel(SingleNode(x, w, node)));
  EXPECT_THAT(network.layers, ::testing::SizeIs(1));
  return network.layers.empty() ? ConvLayer() : network.layers[0];
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_BASE_ONNX_MODELS_H_
