#include "base/training/split.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/training/window_split.h"

namespace ucudnn {
namespace {

constexpr int kMaxParts = 64;

// The axes that are split: their places in Spatial, and from the end of a
// tensor's shape.
struct Axis {
  std::string_view name;
  std::size_t spatial;
  std::size_t from_end;
};
constexpr std::array kAxes = {Axis{"height", 1, 2}, Axis{"width", 2, 1}};

constexpr std::array<std::string_view, 11> kPlacewise = {
    "Relu",   "Clip", "LeakyRelu", "Sigmoid", "Tanh",    "BatchNormalization",
    "Concat", "LRN",  "Dropout",   "Add",     "Identity"};

std::string Shown(const Node& node) {
  return fmt::format("node '{}' ({})", Excerpt(node.name, 200),
                     Excerpt(node.op_type));
}

std::int64_t Extent(const Tensor& tensor, const Axis& axis) {
  return tensor.shape[tensor.shape.size() - axis.from_end];
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
  if (std::count(kPlacewise.begin(), kPlacewise.end(), node.op_type) > 0) {
    return windows;
  }
  return Fail(Code::kInvalidArgument,
              "{} cannot be split; Conv, MaxPool, AveragePool and {} are "
              "accepted, or a depth that ends before it",
              Shown(node), fmt::join(kPlacewise, ", "));
}

class Splitter {
 public:
  Splitter(const Graph& graph, const SplitOptions& options)
      : graph_(graph),
        options_(options),
        parts_{options.height_parts, options.width_parts} {}

  Result<Graph> Split() {
    FindData();
    UCUDNN_RETURN_IF_ERROR(FindJoin());
    UCUDNN_RETURN_IF_ERROR(CheckNodes());
    for (std::size_t axis = 0; axis < kAxes.size(); ++axis) {
      UCUDNN_RETURN_IF_ERROR(CutTensors(axis));
    }
    return Assemble();
  }

 private:
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
      data_.push_back(!computed[i] && tensor.floating && !tensor.parameter);
      if (data_.back()) inputs_.push_back(i);
    }
    for (const Node& node : graph_.nodes) {
      reads_data_.push_back(
          std::any_of(node.inputs.begin(), node.inputs.end(),
                      [&](std::size_t tensor) { return data_[tensor]; }));
      if (!reads_data_.back() || node.outputs.empty()) continue;
      const std::size_t output = node.outputs[0];
      data_[output] = true;
      // An output of the model, which the loss reads.
      if (last_[output] == 0) last_[output] = never;
    }
  }

  // Sets end_ and join_.
  Status FindJoin() {
    const auto convolutions = std::count_if(
        graph_.nodes.begin(), graph_.nodes.end(),
        [](const Node& node) { return node.convolution.has_value(); });
    const auto wanted = static_cast<std::int64_t>(
        std::ceil(options_.depth * static_cast<double>(convolutions) - 1e-9));
    std::vector<std::size_t> live = inputs_;
    std::int64_t seen = 0;     // convolutions
    std::int64_t deepest = 0;  // of them where a join would be possible
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      seen += node.convolution ? 1 : 0;
      for (const std::size_t tensor : node.outputs) live.push_back(tensor);
      std::erase_if(live, [&](std::size_t tensor) {
        return !data_[tensor] || last_[tensor] <= i + 1;
      });
      const bool joins = live.size() == 1 && seen > 0 &&
                         !node.outputs.empty() && live[0] == node.outputs[0] &&
                         IsImage(graph_.tensors[live[0]]);
      if (!joins) continue;
      deepest = seen;
      if (seen < wanted) continue;
      join_ = live[0];
      end_ = i + 1;
      return {};
    }
    if (deepest == 0) {
      return Fail(Code::kInvalidArgument,
                  "no tensor with height and width is live alone after any of "
                  "the {} convolutions",
                  convolutions);
    }
    return Fail(Code::kInvalidArgument,
                "depth {}: after {} of {} convolutions or more no tensor with "
                "height and width is live alone; up to {} is accepted",
                options_.depth, wanted, convolutions,
                std::floor(100.0 * static_cast<double>(deepest) /
                           static_cast<double>(convolutions)) /
                    100);
  }

  // Sets windows_ and split_.
  Status CheckNodes() {
    split_.resize(graph_.tensors.size());
    for (std::size_t i = 0; i < end_; ++i) {
      const Node& node = graph_.nodes[i];
      windows_.emplace_back();
      if (!reads_data_[i]) continue;
      UCUDNN_ASSIGN_OR_RETURN(windows_.back(), WindowsOf(node));
      if (node.outputs.empty()) {
        return Fail(Code::kInvalidArgument, "{} has no output; one is accepted",
                    Shown(node));
      }
      for (const std::size_t tensor : node.outputs) split_[tensor] = true;
      for (std::size_t k = 1; k < node.outputs.size(); ++k) {
        if (last_[node.outputs[k]] == 0) continue;
        return Fail(Code::kInvalidArgument,
                    "{} cannot be split: its output {} is read; only the "
                    "first may be",
                    Shown(node), k + 1);
      }
      const Tensor& output = graph_.tensors[node.outputs[0]];
      for (const std::size_t input : node.inputs) {
        if (!data_[input]) continue;
        split_[input] = true;
        const Tensor& tensor = graph_.tensors[input];
        const bool agree =
            IsImage(tensor) && IsImage(output) &&
            std::all_of(kAxes.begin(), kAxes.end(), [&](const Axis& axis) {
              return windows_.back()[axis.spatial].OutputOf(
                         Extent(tensor, axis)) == Extent(output, axis);
            });
        if (!agree) {
          return Fail(Code::kInvalidArgument,
                      "{} cannot be split: it makes [{}] of [{}]; operators "
                      "that keep height and width, or have windows over them, "
                      "are accepted",
                      Shown(node), fmt::join(output.shape, ", "),
                      fmt::join(tensor.shape, ", "));
        }
      }
    }
    split_[join_] = false;
    return {};
  }

  // Where every split tensor is cut if the last one is cut before `place`.
  Result<std::vector<std::int64_t>> CutsBefore(const Axis& axis,
                                               std::int64_t place) const {
    std::vector<std::int64_t> sizes;
    for (const Tensor& tensor : graph_.tensors) {
      sizes.push_back(IsImage(tensor) ? Extent(tensor, axis) : 0);
    }
    std::vector<WindowStep> steps;
    std::vector<std::size_t> nodes;
    for (std::size_t i = 0; i < end_; ++i) {
      if (!reads_data_[i]) continue;
      for (const std::size_t input : graph_.nodes[i].inputs) {
        if (!data_[input]) continue;
        steps.push_back(
            {input, graph_.nodes[i].outputs[0], windows_[i][axis.spatial]});
        nodes.push_back(i);
      }
    }
    Cuts cuts = FindCuts(steps, sizes, join_, place);
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

  // Sets intervals_ of the axis.
  Status CutTensors(std::size_t which) {
    const Axis& axis = kAxes[which];
    const std::int64_t parts = parts_[which];
    const std::int64_t size = Extent(graph_.tensors[join_], axis);
    if (parts > size) {
      return Fail(Code::kInvalidArgument,
                  "{} parts of the {} of tensor '{}', which is {}; 1 to {} "
                  "are accepted",
                  parts, axis.name, Excerpt(graph_.tensors[join_].name), size,
                  size);
    }
    std::vector<std::vector<Interval>>& intervals = intervals_[which];
    for (const Tensor& tensor : graph_.tensors) {
      intervals.emplace_back(static_cast<std::size_t>(parts));
      if (IsImage(tensor)) intervals.back().back().end = Extent(tensor, axis);
    }
    const std::int64_t drift = options_.stochastic ? size / (5 * parts) : 0;
    for (std::int64_t i = 1; i < parts; ++i) {
      const auto part = static_cast<std::size_t>(i);
      const std::int64_t even = i * size / parts;
      for (std::int64_t place = even - drift; place <= even + drift; ++place) {
        UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::int64_t> cuts,
                                CutsBefore(axis, place));
        // Cuts rise with `place`: the first draw makes the part behind the cut
        // largest, the last draw the part before it.
        for (std::size_t t = 0; t < cuts.size(); ++t) {
          if (place == even - drift) intervals[t][part].begin = cuts[t];
          if (place == even + drift) intervals[t][part - 1].end = cuts[t];
        }
      }
    }
    return CheckParts(which);
  }

  // Parts overlap where draws differ; a part is empty in no draw if no two cuts
  // of a tensor coincide.
  Status CheckParts(std::size_t which) const {
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (!split_[t] || !data_[t]) continue;
      const std::vector<Interval>& parts = intervals_[which][t];
      for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
        // From the latest cut before the part to the earliest one behind it.
        if (parts[i - 1].end < parts[i + 1].begin) continue;
        return Fail(Code::kInvalidArgument,
                    "{} parts would leave one without any of the {} elements "
                    "of {} of tensor '{}'; fewer are accepted",
                    parts.size(), Extent(graph_.tensors[t], kAxes[which]),
                    kAxes[which].name, Excerpt(graph_.tensors[t].name));
      }
    }
    return {};
  }

  Graph Assemble() const {
    Graph result;
    result.name =
        fmt::format("{} (split {},{},{}{})", graph_.name, options_.depth,
                    options_.height_parts, options_.width_parts,
                    options_.stochastic ? ",stochastic" : "");
    result.batch = graph_.batch;
    std::vector<std::size_t> kept(graph_.tensors.size());
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (split_[t]) continue;
      kept[t] = result.tensors.size();
      result.tensors.push_back(graph_.tensors[t]);
    }
    const auto keep = [&](Node node) {
      for (std::size_t& tensor : node.inputs) tensor = kept[tensor];
      for (std::size_t& tensor : node.outputs) tensor = kept[tensor];
      result.nodes.push_back(std::move(node));
    };
    for (std::size_t i = 0; i < end_; ++i) {
      if (!reads_data_[i]) keep(graph_.nodes[i]);
    }
    Node join;
    join.name = graph_.nodes[end_ - 1].name + ".join";
    join.op_type = "Concat";
    join.outputs = {kept[join_]};
    for (std::size_t y = 0; y < intervals_[0][join_].size(); ++y) {
      for (std::size_t x = 0; x < intervals_[1][join_].size(); ++x) {
        join.inputs.push_back(AddPart({y, x}, kept, &result));
      }
    }
    result.nodes.push_back(std::move(join));
    for (std::size_t i = end_; i < graph_.nodes.size(); ++i) {
      keep(graph_.nodes[i]);
    }
    return result;
  }

  using Part = std::array<std::size_t, 2>;  // by axis

  // Adds all nodes of a part; returns its tensor to join.
  std::size_t AddPart(const Part& part, const std::vector<std::size_t>& kept,
                      Graph* result) const {
    const std::string suffix = fmt::format(".h{}w{}", part[0], part[1]);
    std::vector<std::size_t> own = kept;
    const auto add = [&](std::size_t t) {
      Tensor tensor = graph_.tensors[t];
      tensor.name += suffix;
      for (std::size_t a = 0; a < kAxes.size(); ++a) {
        tensor.shape[tensor.shape.size() - kAxes[a].from_end] =
            intervals_[a][t][part[a]].size();
      }
      own[t] = result->tensors.size();
      result->tensors.push_back(std::move(tensor));
    };
    for (const std::size_t t : inputs_) {
      if (split_[t]) add(t);
    }
    for (std::size_t i = 0; i < end_; ++i) {
      if (!reads_data_[i]) continue;
      Node node = graph_.nodes[i];
      const std::size_t output = node.outputs[0];
      const auto input =
          *std::find_if(node.inputs.begin(), node.inputs.end(),
                        [&](std::size_t tensor) { return data_[tensor]; });
      for (std::size_t a = 0; a < kAxes.size(); ++a) {
        const Interval in = intervals_[a][input][part[a]];
        const Interval out = intervals_[a][output][part[a]];
        SetWindow(kAxes[a].spatial, in,
                  WindowOfPart(windows_[i][kAxes[a].spatial], in, out,
                               Extent(graph_.tensors[output], kAxes[a])),
                  &node);
      }
      node.name += suffix;
      add(output);
      for (std::size_t& tensor : node.inputs) tensor = own[tensor];
      node.outputs = {own[output]};
      result->nodes.push_back(std::move(node));
    }
    return own[join_];
  }

  // Gives the node's convolution or pooling the window of a part. A geometry
  // has the same padding on both sides: where a part's differs, the padding
  // counts as input.
  static void SetWindow(std::size_t spatial, Interval input,
                        const Window& window, Node* node) {
    if (node->pooling) (*node->pooling)[spatial] = window;
    if (!node->convolution) return;
    ConvGeometry& g = node->convolution->geometry;
    const bool even = window.before == window.after;
    g.padding[spatial] = even ? window.before : 0;
    g.input[spatial] = input.size() + (even ? 0 : window.before + window.after);
  }

  const Graph& graph_;
  const SplitOptions& options_;
  const std::array<std::int64_t, 2> parts_;  // by axis
  std::vector<std::size_t> inputs_;          // of the model
  std::vector<bool> data_;                   // by tensor
  std::vector<std::size_t> last_;  // by tensor: behind the last reading node
  std::vector<bool> reads_data_;   // by node
  std::size_t end_ = 0;            // of the nodes that are split
  std::size_t join_ = 0;     // the tensor at which the parts are put together
  std::vector<bool> split_;  // tensors that only the parts have
  std::vector<std::array<Window, 3>> windows_;  // by node
  // By axis and tensor.
  std::array<std::vector<std::vector<Interval>>, 2> intervals_;
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
  for (std::size_t a = 0; a < kAxes.size(); ++a) {
    const Result<std::int64_t> number =
        ParseInteger(fields[a + 1], 1, kMaxParts);
    if (!number) {
      return Within(fmt::format("parts of the {}", kAxes[a].name),
                    number.error());
    }
    parts[a] = static_cast<int>(*number);
  }
  if (parts[0] * parts[1] == 1 || parts[0] * parts[1] > kMaxParts) {
    return Fail(Code::kInvalidArgument,
                "{} x {} parts; 2 to {} parts in all are accepted", parts[0],
                parts[1], kMaxParts);
  }
  options.height_parts = parts[0];
  options.width_parts = parts[1];
  options.stochastic = fields.size() == 4;
  return options;
}

Result<Graph> SplitGraph(const Graph& graph, const SplitOptions& options) {
  return Splitter(graph, options).Split();
}

}  // namespace ucudnn
