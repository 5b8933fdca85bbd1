#include "solver/memory/split/split_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::array<std::string_view, 11> kPlacewise = {
    "Relu",   "Clip", "LeakyRelu", "Sigmoid", "Tanh",    "BatchNormalization",
    "Concat", "LRN",  "Dropout",   "Add",     "Identity"};

std::string Shown(const Node& node) {
  return fmt::format("node '{}' ({})", Excerpt(node.name, 200),
                     Excerpt(node.op_type));
}

bool IsImage(const Tensor& tensor) { return tensor.shape.size() >= 4; }

// How the node reads its inputs.
Result<std::array<Window, 3>> WindowsOf(const Node& node) {
  std::array<Window, 3> windows;
  if (node.convolution && !node.convolution->transposed) {
    const ConvGeometry& g = node.convolution->geometry;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      windows[i] = {g.dilation[i] * (g.filter[i] - 1) + 1, g.stride[i],
                    g.padding[i], g.padding[i]};
    }
    return windows;
  }
  if (node.pooling) return *node.pooling;
  if (node.op_type == "MaxPool" || node.op_type == "AveragePool") {
    return Fail(Code::kInvalidArgument,
                "{} cannot be split: its windows are not known; explicit "
                "padding without dilation is accepted",
                Shown(node));
  }
  if (std::ranges::count(kPlacewise, node.op_type) > 0) {
    return windows;
  }
  return Fail(Code::kInvalidArgument,
              "{} cannot be split; Conv, MaxPool, AveragePool and {} are "
              "accepted, or a depth that ends before it",
              Shown(node), fmt::join(kPlacewise, ", "));
}

class Finder {
 public:
  Finder(const Graph& graph, const SplitOptions& options,
         std::optional<std::uint64_t> draw)
      : graph_(graph),
        options_(options),
        draw_(draw),
        draws_(draw.value_or(0)) {}

  Result<SplitLayout> Find() {
    FindData();
    FindJoins();
    UCUDNN_RETURN_IF_ERROR(ChooseJoin());
    UCUDNN_RETURN_IF_ERROR(CheckNodes());
    UCUDNN_RETURN_IF_ERROR(CutTensors(0, options_.height_parts));
    UCUDNN_RETURN_IF_ERROR(CutTensors(1, options_.width_parts));
    return std::move(layout_);
  }

  Result<std::vector<SplitDepth>> Depths() {
    FindData();
    FindJoins();
    UCUDNN_RETURN_IF_ERROR(CheckJoins());
    std::vector<SplitDepth> depths;
    for (const Join& join : joins_) {
      depths.push_back({ShareOf(join), join.convolutions, convolutions_,
                        graph_.nodes[join.end - 1].name});
    }
    return depths;
  }

 private:
  // Where the parts may be put together: behind a node whose output alone is
  // live, with so many convolutions before it.
  struct Join {
    std::size_t end = 0;
    std::int64_t convolutions = 0;
  };

  // Tensors that depend on the model's inputs, and who reads them.
  void FindData() {
    const std::size_t never = graph_.nodes.size() + 1;
    std::vector<bool> computed(graph_.tensors.size());
    last_.resize(graph_.tensors.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (const std::size_t tensor : node.inputs) last_[tensor] = i + 1;
      for (const std::size_t tensor : node.outputs) computed[tensor] = true;
    }
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      layout_.data.push_back(!computed[i] && tensor.floating &&
                             !tensor.parameter);
      if (layout_.data.back()) layout_.inputs.push_back(i);
    }
    for (const Node& node : graph_.nodes) {
      layout_.in_parts.push_back(std::ranges::any_of(
          node.inputs,
          [&](std::size_t tensor) { return layout_.data[tensor]; }));
      if (!layout_.in_parts.back() || node.outputs.empty()) continue;
      // Further outputs of others are masks or statistics.
      const std::size_t outputs =
          node.op_type == "Split" ? node.outputs.size() : 1;
      for (std::size_t i = 0; i < outputs; ++i) {
        const std::size_t output = node.outputs[i];
        layout_.data[output] = true;
        // An output of the model, which the loss reads.
        if (last_[output] == 0) last_[output] = never;
      }
    }
  }

  // Of each number of convolutions the first; by rising number.
  void FindJoins() {
    std::vector<std::size_t> live = layout_.inputs;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      convolutions_ += node.convolution ? 1 : 0;
      for (const std::size_t tensor : node.outputs) live.push_back(tensor);
      std::erase_if(live, [&](std::size_t tensor) {
        return !layout_.data[tensor] || last_[tensor] <= i + 1;
      });
      const bool joins = live.size() == 1 && convolutions_ > 0 &&
                         !node.outputs.empty() && live[0] == node.outputs[0] &&
                         IsImage(graph_.tensors[live[0]]);
      if (!joins) continue;
      if (joins_.empty() || joins_.back().convolutions < convolutions_) {
        joins_.push_back({i + 1, convolutions_});
      }
    }
  }

  Status CheckJoins() const {
    if (!joins_.empty()) return {};
    return Fail(Code::kInvalidArgument,
                "no tensor with height and width is live alone after any of "
                "the {} convolutions",
                convolutions_);
  }

  // How many convolutions a depth asks for.
  std::int64_t WantedOf(double depth) const {
    return static_cast<std::int64_t>(
        std::ceil(depth * static_cast<double>(convolutions_) - 1e-9));
  }

  // The share of the convolutions, rounded down to as few decimals as still
  // mean it.
  double ShareOf(const Join& join) const {
    const double exact = static_cast<double>(join.convolutions) /
                         static_cast<double>(convolutions_);
    for (double scale = 10; scale < 1e9; scale *= 10) {
      const double rounded = std::floor(exact * scale + 1e-6) / scale;
      if (rounded > 0 && WantedOf(rounded) == join.convolutions) {
        return rounded;
      }
    }
    return exact;
  }

  // Sets layout_.end and layout_.join.
  Status ChooseJoin() {
    UCUDNN_RETURN_IF_ERROR(CheckJoins());
    const std::int64_t wanted = WantedOf(options_.depth);
    const auto join = std::ranges::find_if(
        joins_, [&](const Join& j) { return j.convolutions >= wanted; });
    if (join == joins_.end()) {
      return Fail(
          Code::kInvalidArgument,
          "depth {}: after {} of {} convolutions or more no tensor "
          "with height and width is live alone; up to {} is accepted",
          options_.depth, wanted, convolutions_,
          std::floor(100.0 * static_cast<double>(joins_.back().convolutions) /
                     static_cast<double>(convolutions_)) /
              100);
    }
    layout_.end = join->end;
    layout_.join = graph_.nodes[join->end - 1].outputs[0];
    return {};
  }

  // Sets layout_.windows and layout_.split.
  Status CheckNodes() {
    layout_.split.resize(graph_.tensors.size());
    layout_.in_parts.resize(layout_.end);
    layout_.windows.resize(layout_.end);
    for (std::size_t i = 0; i < layout_.end; ++i) {
      if (!layout_.in_parts[i]) continue;
      const Node& node = graph_.nodes[i];
      UCUDNN_ASSIGN_OR_RETURN(layout_.windows[i], WindowsOf(node));
      UCUDNN_RETURN_IF_ERROR(CheckTensors(node, layout_.windows[i]));
      for (const std::size_t tensor : node.inputs) {
        if (layout_.data[tensor]) layout_.split[tensor] = true;
      }
      for (const std::size_t tensor : node.outputs) {
        layout_.split[tensor] = true;
      }
    }
    layout_.split[layout_.join] = false;
    return {};
  }

  Status CheckTensors(const Node& node,
                      const std::array<Window, 3>& windows) const {
    if (node.outputs.empty()) {
      return Fail(Code::kInvalidArgument, "{} has no output; one is accepted",
                  Shown(node));
    }
    for (std::size_t k = 1; k < node.outputs.size(); ++k) {
      if (last_[node.outputs[k]] == 0) continue;
      return Fail(Code::kInvalidArgument,
                  "{} cannot be split: its output {} is read; only the first "
                  "may be",
                  Shown(node), k + 1);
    }
    const Tensor& output = graph_.tensors[node.outputs[0]];
    for (const std::size_t tensor : node.inputs) {
      if (!layout_.data[tensor]) continue;
      const Tensor& input = graph_.tensors[tensor];
      bool agree = IsImage(input) && IsImage(output);
      for (const SplitAxis& axis : kSplitAxes) {
        agree = agree && windows[axis.spatial].OutputOf(axis.ExtentOf(input)) ==
                             axis.ExtentOf(output);
      }
      if (agree) continue;
      return Fail(Code::kInvalidArgument,
                  "{} cannot be split: it makes [{}] of [{}]; operators that "
                  "keep height and width, or have windows over them, are "
                  "accepted",
                  Shown(node), fmt::join(output.shape, ", "),
                  fmt::join(input.shape, ", "));
    }
    return {};
  }

  // Where every split tensor is cut if the last one is cut before `place`.
  Result<std::vector<std::int64_t>> CutsBefore(const SplitAxis& axis,
                                               std::int64_t place) const {
    std::vector<std::int64_t> sizes;
    for (const Tensor& tensor : graph_.tensors) {
      sizes.push_back(IsImage(tensor) ? axis.ExtentOf(tensor) : 0);
    }
    std::vector<WindowStep> steps;
    std::vector<std::size_t> nodes;
    for (std::size_t i = 0; i < layout_.end; ++i) {
      if (!layout_.in_parts[i]) continue;
      for (const std::size_t input : graph_.nodes[i].inputs) {
        if (!layout_.data[input]) continue;
        steps.push_back({input, graph_.nodes[i].outputs[0],
                         layout_.windows[i][axis.spatial]});
        nodes.push_back(i);
      }
    }
    Cuts cuts = FindCuts(steps, sizes, layout_.join, place);
    if (!cuts.conflict) return std::move(cuts.places);
    const Cuts::Conflict& conflict = *cuts.conflict;
    return Fail(Code::kInvalidArgument,
                "{} needs the {} of its input cut at {} to {}, where its {} "
                "elements and the other nodes allow {} to {}; fewer parts, or "
                "a depth that ends before it, are accepted",
                Shown(graph_.nodes[nodes[conflict.step]]), axis.name,
                conflict.needed.low, conflict.needed.high,
                sizes[steps[conflict.step].input], conflict.allowed.low,
                conflict.allowed.high);
  }

  // Sets layout_.intervals of the axis.
  Status CutTensors(std::size_t which, std::int64_t parts) {
    const SplitAxis& axis = kSplitAxes[which];
    const std::int64_t size = axis.ExtentOf(graph_.tensors[layout_.join]);
    if (parts > size) {
      return Fail(Code::kInvalidArgument,
                  "{} parts of the {} of tensor '{}', which is {}; 1 to {} "
                  "are accepted",
                  parts, axis.name, Excerpt(graph_.tensors[layout_.join].name),
                  size, size);
    }
    std::vector<std::vector<Interval>>& intervals = layout_.intervals[which];
    for (const Tensor& tensor : graph_.tensors) {
      intervals.emplace_back(static_cast<std::size_t>(parts));
      if (IsImage(tensor)) intervals.back().back().end = axis.ExtentOf(tensor);
    }
    // How far draws move a tensor's cuts if they move the last one's by 1.
    std::vector<std::int64_t> scale(graph_.tensors.size(), 1);
    for (std::size_t i = layout_.end; i-- > 0;) {
      if (!layout_.in_parts[i]) continue;
      for (const std::size_t input : graph_.nodes[i].inputs) {
        scale[input] = layout_.windows[i][axis.spatial].stride *
                       scale[graph_.nodes[i].outputs[0]];
      }
    }
    const std::int64_t drift = options_.stochastic ? size / (5 * parts) : 0;
    for (std::int64_t i = 1; i < parts; ++i) {
      const auto part = static_cast<std::size_t>(i);
      UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::int64_t> cuts,
                              CutsBefore(axis, i * size / parts));
      const auto choices = static_cast<std::uint64_t>(2 * drift + 1);
      const std::int64_t shift =
          draw_ ? static_cast<std::int64_t>(draws_() % choices) - drift : 0;
      const std::int64_t overlap = draw_ ? 0 : drift;
      for (std::size_t t = 0; t < cuts.size(); ++t) {
        const std::int64_t cut = cuts[t] + shift * scale[t];
        intervals[t][part].begin = cut - overlap * scale[t];
        intervals[t][part - 1].end = cut + overlap * scale[t];
      }
    }
    return CheckParts(which);
  }

  // Parts overlap where draws differ; a part is empty in no draw if no two cuts
  // of a tensor coincide.
  Status CheckParts(std::size_t which) const {
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (!layout_.split[t] || !layout_.data[t]) continue;
      const std::vector<Interval>& parts = layout_.intervals[which][t];
      for (std::size_t i = 0; i < parts.size(); ++i) {
        // From the latest cut before the part to the earliest one behind it.
        const std::int64_t begin = i == 0 ? 0 : parts[i - 1].end;
        const std::int64_t end =
            i + 1 == parts.size() ? parts[i].end : parts[i + 1].begin;
        if (begin < end) continue;
        return Fail(Code::kInvalidArgument,
                    "{} parts would leave one without any of the {} elements "
                    "of {} of tensor '{}'; fewer are accepted",
                    parts.size(), kSplitAxes[which].ExtentOf(graph_.tensors[t]),
                    kSplitAxes[which].name, Excerpt(graph_.tensors[t].name));
      }
    }
    return {};
  }

  const Graph& graph_;
  const SplitOptions& options_;
  const std::optional<std::uint64_t> draw_;
  std::mt19937_64 draws_;
  std::vector<std::size_t> last_;  // by tensor: behind the last reading node
  std::vector<Join> joins_;
  std::int64_t convolutions_ = 0;  // in all
  SplitLayout layout_;
};

}  // namespace

Result<std::vector<SplitDepth>> SplitDepths(const Graph& graph) {
  return Finder(graph, {}, std::nullopt).Depths();
}

Result<SplitLayout> LayOutSplit(const Graph& graph, const SplitOptions& options,
                                std::optional<std::uint64_t> draw) {
  return Finder(graph, options, draw).Find();
}

}  // namespace ucudnn
