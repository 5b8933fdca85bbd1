#include "solver/memory/split/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "solver/memory/split/split_layout.h"
#include "solver/memory/split/window_split.h"

namespace ucudnn {
namespace {

class Splitter {
 public:
  Splitter(const Graph& graph, const SplitOptions& options, SplitLayout layout)
      : graph_(graph), options_(options), layout_(std::move(layout)) {}

  Graph Assemble() const {
    Graph result;
    result.name = fmt::format("{} (split {})", graph_.name, ToString(options_));
    result.batch = graph_.batch;
    std::vector<std::size_t> kept(graph_.tensors.size());
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (layout_.split[t]) continue;
      kept[t] = result.tensors.size();
      result.tensors.push_back(graph_.tensors[t]);
    }
    const auto keep = [&](Node node) {
      for (std::size_t& tensor : node.inputs) tensor = kept[tensor];
      for (std::size_t& tensor : node.outputs) tensor = kept[tensor];
      result.nodes.push_back(std::move(node));
    };
    for (std::size_t i = 0; i < layout_.end; ++i) {
      if (!layout_.in_parts[i]) keep(graph_.nodes[i]);
    }
    Node join;
    join.name = graph_.nodes[layout_.end - 1].name + ".join";
    join.op_type = "Concat";
    join.numbers = {{"columns", options_.width_parts}};
    join.outputs = {kept[layout_.join]};
    for (std::size_t y = 0; y < layout_.intervals[0][layout_.join].size();
         ++y) {
      for (std::size_t x = 0; x < layout_.intervals[1][layout_.join].size();
           ++x) {
        join.inputs.push_back(AddPart({y, x}, kept, &result));
      }
    }
    result.nodes.push_back(std::move(join));
    for (std::size_t i = layout_.end; i < graph_.nodes.size(); ++i) {
      keep(graph_.nodes[i]);
    }
    return result;
  }

 private:
  using Part = std::array<std::size_t, 2>;  // by axis

  // Adds all nodes of a part; returns its tensor to join.
  std::size_t AddPart(const Part& part, const std::vector<std::size_t>& kept,
                      Graph* result) const {
    const std::string suffix = fmt::format(".h{}w{}", part[0], part[1]);
    std::vector<std::size_t> own = kept;
    const auto add = [&](std::size_t t) {
      Tensor tensor = graph_.tensors[t];
      tensor.name += suffix;
      for (std::size_t a = 0; a < kSplitAxes.size(); ++a) {
        tensor.shape[tensor.shape.size() - kSplitAxes[a].from_end] =
            layout_.intervals[a][t][part[a]].size();
      }
      own[t] = result->tensors.size();
      result->tensors.push_back(std::move(tensor));
    };
    for (const std::size_t t : layout_.inputs) {
      if (layout_.split[t]) add(t);
    }
    for (std::size_t i = 0; i < layout_.end; ++i) {
      if (!layout_.in_parts[i]) continue;
      Node node = graph_.nodes[i];
      const std::size_t output = node.outputs[0];
      const auto input = *std::ranges::find_if(
          node.inputs,
          [&](std::size_t tensor) { return layout_.data[tensor]; });
      std::array<Window, 3> around;
      for (std::size_t a = 0; a < kSplitAxes.size(); ++a) {
        const std::size_t spatial = kSplitAxes[a].spatial;
        const Interval in = layout_.intervals[a][input][part[a]];
        const Interval out = layout_.intervals[a][output][part[a]];
        const Window window =
            WindowOfPart(layout_.windows[i][spatial], in, out,
                         kSplitAxes[a].ExtentOf(graph_.tensors[output]));
        if (node.pooling) (*node.pooling)[spatial] = window;
        if (node.convolution) {
          around[spatial] = SetWindow(spatial, in.size(), out.size(), window,
                                      &node.convolution->geometry);
        }
      }
      node.name += suffix;
      for (std::size_t& tensor : node.inputs) tensor = own[tensor];
      if (around != std::array<Window, 3>()) {
        node.inputs[0] = AddPad(node, around, result);
      }
      add(output);
      node.outputs = {own[output]};
      result->nodes.push_back(std::move(node));
    }
    return own[layout_.join];
  }

  // Gives a convolution the window of a part. Its padding is the same on both
  // sides, and may be larger than is needed after if no output reads it. Where
  // that is not enough, the input is padded; returns by what.
  static Window SetWindow(std::size_t spatial, std::int64_t input,
                          std::int64_t output, const Window& window,
                          ConvGeometry* g) {
    g->input[spatial] = input;
    g->padding[spatial] = window.before;
    if (g->output()[spatial] == output) return {};
    g->input[spatial] += window.before + window.after;
    g->padding[spatial] = 0;
    return {.before = window.before, .after = window.after};
  }

  // Adds a padded copy of the convolution's input; returns its tensor.
  static std::size_t AddPad(const Node& convolution,
                            const std::array<Window, 3>& around,
                            Graph* result) {
    Tensor padded = result->tensors[convolution.inputs[0]];
    padded.name = convolution.name + ".padded";
    for (const SplitAxis& axis : kSplitAxes) {
      padded.shape[padded.shape.size() - axis.from_end] =
          around[axis.spatial].OutputOf(axis.ExtentOf(padded));
    }
    Node pad;
    pad.name = convolution.name + ".pad";
    pad.op_type = "Pad";
    pad.inputs = {convolution.inputs[0]};
    pad.outputs = {result->tensors.size()};
    pad.pooling = around;
    result->tensors.push_back(std::move(padded));
    result->nodes.push_back(std::move(pad));
    return result->tensors.size() - 1;
  }

  const Graph& graph_;
  const SplitOptions& options_;
  const SplitLayout layout_;
};

}  // namespace

Result<SplitOptions> ParseSplitOptions(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    fields.push_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (fields.size() < 3 || fields.size() > 4 ||
      (fields.size() == 4 && fields[3] != "stochastic")) {
    return Fail(Code::kInvalidArgument,
                "'{}'; DEPTH,H,W or DEPTH,H,W,stochastic is accepted",
                Excerpt(text));
  }
  SplitOptions options;
  const char* end = fields[0].data() + fields[0].size();
  const auto [stop, error] =
      std::from_chars(fields[0].data(), end, options.depth);
  if (error != std::errc() || stop != end ||
      !(options.depth > 0 && options.depth <= 1)) {
    return Fail(Code::kInvalidArgument,
                "depth '{}'; a share of the convolutions above 0, up to 1, is "
                "accepted",
                Excerpt(fields[0]));
  }
  std::array<int, 2> parts;
  for (std::size_t a = 0; a < kSplitAxes.size(); ++a) {
    const Result<std::int64_t> number =
        ParseInteger(fields[a + 1], 1, kMaxSplitParts);
    if (!number) {
      return Within(fmt::format("parts of the {}", kSplitAxes[a].name),
                    number.error());
    }
    parts[a] = static_cast<int>(*number);
  }
  if (parts[0] * parts[1] == 1 || parts[0] * parts[1] > kMaxSplitParts) {
    return Fail(Code::kInvalidArgument,
                "{} x {} parts; 2 to {} parts in all are accepted", parts[0],
                parts[1], kMaxSplitParts);
  }
  options.height_parts = parts[0];
  options.width_parts = parts[1];
  options.stochastic = fields.size() == 4;
  return options;
}

std::string ToString(const SplitOptions& options) {
  return fmt::format("{},{},{}{}", options.depth, options.height_parts,
                     options.width_parts,
                     options.stochastic ? ",stochastic" : "");
}

Result<Graph> SplitGraph(const Graph& graph, const SplitOptions& options,
                         std::optional<std::uint64_t> draw) {
  UCUDNN_ASSIGN_OR_RETURN(SplitLayout layout,
                          LayOutSplit(graph, options, draw));
  return Splitter(graph, options, std::move(layout)).Assemble();
}

}  // namespace ucudnn
