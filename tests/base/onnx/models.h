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

namespace ucudnn::testing {

// A model from ONNX's own text form.
inline onnx::ModelProto Model(const std::string& graph) {
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(
      model, ("<ir_version: 8, opset_import: [\"\" : 17]>\n" + graph).c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

inline Result<Graph> Read(const onnx::ModelProto& model,
                          std::int64_t batch = 8) {
  return ReadOnnx(model.SerializeAsString(), "net", BatchSize(batch), "m.onnx");
}

inline Graph Parsed(const std::string& graph) {
  auto result = Read(Model(graph));
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(Graph());
}

inline Error ErrorOf(const Result<Graph>& graph) {
  if (graph) return {Code::kOk, "no error"};
  EXPECT_THAT(graph.error().message, ::testing::StartsWith("m.onnx: "));
  return graph.error();
}

inline Error ErrorOf(const std::string& graph) {
  return ErrorOf(Read(Model(graph)));
}

// A graph of the single convolution `node`, from x to y.
inline std::string Single(const std::string& x, const std::string& w,
                          const std::string& node) {
  return "g (float[" + x + "] x, float[" + w +
         "] w) => (float y) { y = " + node + " }";
}

inline ConvLayer SingleLayer(const std::string& x, const std::string& w,
                             const std::string& node) {
  const Network network = NetworkOf(Parsed(Single(x, w, node)));
  EXPECT_THAT(network.layers, ::testing::SizeIs(1));
  return network.layers.empty() ? ConvLayer() : network.layers[0];
}

}  // namespace ucudnn::testing

#endif  // UCUDNN_TESTS_BASE_ONNX_MODELS_H_
