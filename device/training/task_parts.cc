#include "device/training/task_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ucudnn {
namespace {

using Blocks = std::vector<std::size_t>;
using Shape = std::vector<std::int64_t>;

bool Contains(const Blocks& blocks, std::size_t block) {
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

Blocks Gradients(const TrainingGraph& training, const Blocks& blocks) {
  Blocks gradients;
  for (const std::size_t block : blocks) {
    if (training.blocks[block].kind == BlockKind::kGradient) {
      gradients.push_back(block);
    }
  }
  return gradients;
}

Blocks Values(const TrainingGraph& training, const Blocks& blocks) {
  Blocks values;
  for (const std::size_t block : blocks) {
    const BlockKind kind = training.blocks[block].kind;
    if (kind == BlockKind::kActivation || kind == BlockKind::kInput) {
      values.push_back(block);
    }
  }
  return values;
}

Status CheckOperands(const Dataflow& flow, std::size_t node) {
  std::set<std::size_t> seen;
  for (const std::size_t value : flow.OperandsOf(node)) {
    if (!seen.insert(value).second) {
      return Fail(Code::kUnimplemented,
                  "it reads '{}' twice; operands that differ are accepted",
                  Excerpt(flow.values()[value].name, 200));
    }
    if (flow.values()[value].elements_per_image == 0) {
      return Fail(Code::kUnimplemented,
                  "its operand '{}' is the same for all images; one that the "
                  "images have each is accepted",
                  Excerpt(flow.values()[value].name, 200));
    }
  }
  return {};
}

// For each operand, the gradient that the backward task writes, if any, and
// what it adds to. The task reads the gradients of `outputs` outputs first.
Result<std::vector<std::optional<TensorPart>>> OperandGradients(
    const Dataflow& flow, std::size_t node, const TrainingGraph& training,
    const Task& task, std::size_t outputs) {
  const Blocks written = Gradients(training, task.writes);
  Blocks read = Gradients(training, task.reads);
  read.erase(read.begin(), read.begin() + std::ptrdiff_t(outputs));
  // Sums that other layers hold too are read from blocks of their own.
  Blocks apart = read;
  std::erase_if(apart, [&](std::size_t b) { return Contains(written, b); });
  const auto fresh =
      std::count_if(written.begin(), written.end(),
                    [&](std::size_t block) { return !Contains(read, block); });
  if (!apart.empty() && std::ssize(apart) != fresh) {
    return Fail(Code::kUnimplemented,
                "other layers hold the gradients of {} of its operands, and "
                "not of {} others, which is not supported",
                apart.size(), fresh - std::ssize(apart));
  }
  std::vector<std::optional<TensorPart>> gradients;
  std::size_t next = 0;
  std::size_t next_apart = 0;
  for (const std::size_t value : flow.OperandsOf(node)) {
    std::optional<TensorPart>& gradient = gradients.emplace_back();
    if (!flow.values()[value].trained) continue;
    gradient.emplace();
    gradient->block = written.at(next++);
    if (Contains(read, gradient->block)) {
      gradient->old = gradient->block;
    } else if (!apart.empty()) {
      gradient->old = apart.at(next_apart++);
    }
  }
  return gradients;
}

// How often `small` repeats along the axes after its own; 0 if it does not just
// repeat there.
std::int64_t SpanOf(const Shape& small, const Shape& large) {
  if (small.size() != large.size()) return 0;
  std::int64_t span = 1;
  for (std::size_t axis = large.size(); axis-- > 0;) {
    if (small[axis] == large[axis] && (span == 1 || large[axis] != 1)) {
      // All axes before it must be equal too.
      return std::equal(small.begin(), small.begin() + std::ptrdiff_t(axis) + 1,
                        large.begin())
                 ? span
                 : 0;
    }
    if (small[axis] != 1) return 0;
    span *= large[axis];
  }
  return 0;
}

}  // namespace

Status SetParts(const Graph& graph, const Dataflow& flow, std::size_t index,
                const TrainingGraph& training, const Task& task,
                TaskOperation* operation) {
  UCUDNN_RETURN_IF_ERROR(CheckOperands(flow, index));
  const Node& node = graph.nodes[index];
  const bool concat = operation->what == TaskOperator::kConcat;  // or Pad
  const auto& tensors = concat ? node.inputs : node.outputs;
  const Shape& whole =
      graph.tensors[concat ? node.outputs[0] : node.inputs[0]].shape;
  const auto rank = std::ssize(whole);
  auto axis =
      static_cast<std::int64_t>(node.NumberOr("axis", concat ? 1.0 : 0.0));
  if (axis < 0) axis += rank;
  if (axis < 1 || axis >= rank) {
    return Fail(Code::kUnimplemented,
                "its axis is {} of {}; one after the images' is accepted", axis,
                rank);
  }
  const auto product = [](auto begin, auto end) {
    return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
  };
  // Rectangles of the last two dimensions, so many in a row, instead of what
  // lies along the axis.
  const auto columns = static_cast<std::size_t>(node.NumberOr("columns", 0));
  operation->pads = node.pooling.has_value();
  const bool rectangles = operation->pads || columns > 0;
  // Padding before and after slices makes planes of all of them.
  const bool slices = operation->pads && (*node.pooling)[0] != Window();
  const auto from = slices ? rank - 3 : rectangles ? rank - 2 : axis;
  operation->planes = product(whole.begin() + 1, whole.begin() + from);
  operation->plane = product(whole.begin() + from, whole.end());
  operation->row = rectangles ? whole.back() : operation->plane;
  operation->slice =
      slices ? product(whole.end() - 2, whole.end()) : operation->plane;
  Blocks blocks;
  std::vector<std::optional<TensorPart>> gradients(tensors.size());
  if (task.kind == TaskKind::kForward) {
    blocks = Values(training, concat ? task.reads : task.writes);
  } else if (concat) {
    UCUDNN_ASSIGN_OR_RETURN(gradients,
                            OperandGradients(flow, index, training, task, 1));
  } else {
    blocks = Gradients(training, task.reads);
    UCUDNN_ASSIGN_OR_RETURN(
        const auto of_input,
        OperandGradients(flow, index, training, task, tensors.size()));
    operation->old = of_input.at(0)->old;
  }
  std::int64_t x = operation->pads ? (*node.pooling)[2].before : 0;
  std::int64_t y = operation->pads ? (*node.pooling)[1].before : 0;
  const std::int64_t z = operation->pads ? (*node.pooling)[0].before : 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = graph.tensors[tensors[i]].shape;
    TensorPart part = gradients[i].value_or(TensorPart());
    part.depth = slices ? shape[shape.size() - 3] : 1;
    part.height = rectangles ? shape[shape.size() - 2] : 1;
    part.width =
        rectangles ? shape.back() : product(shape.begin() + axis, shape.end());
    // The largest parts of a stochastic split overlap.
    part.first = z * operation->slice +
                 std::min(y, operation->slice / operation->row - part.height) *
                     operation->row +
                 std::min(x, operation->row - part.width);
    x += part.width;
    if (columns > 0 && (i + 1) % columns == 0) {
      x = 0;
      y += part.height;
    }
    if (!blocks.empty()) part.block = blocks.at(i);
    // The gradients of operands that are not trained are not computed.
    if (!blocks.empty() || gradients[i]) operation->parts.push_back(part);
  }
  return {};
}

Status SetFactors(const Graph& graph, const Dataflow& flow, std::size_t index,
                  const TrainingGraph& training, const Task& task,
                  TaskOperation* operation) {
  UCUDNN_RETURN_IF_ERROR(CheckOperands(flow, index));
  const Node& node = graph.nodes[index];
  const Blocks operands = flow.OperandsOf(index);
  if (operands.size() != 2 || node.inputs.size() != 2) {
    return Fail(Code::kUnimplemented,
                "{} of its {} factors are computed; two of two are accepted",
                operands.size(), node.inputs.size());
  }
  const auto shape = [&](std::size_t i) -> const Shape& {
    return graph.tensors[node.inputs[i]].shape;
  };
  const bool swapped = SpanOf(shape(1), shape(0)) == 0;
  operation->span =
      swapped ? SpanOf(shape(0), shape(1)) : SpanOf(shape(1), shape(0));
  if (operation->span == 0) {
    return Fail(Code::kUnimplemented,
                "it multiplies tensors of [{}] and [{}]; equal shapes, or one "
                "that is 1 in its last dimensions, are accepted",
                fmt::join(shape(0), ", "), fmt::join(shape(1), ", "));
  }
  // Of the backward pass, those that another's gradient needs.
  const Blocks read = Values(training, task.reads);
  std::size_t next = 0;
  operation->x.assign(2, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    const bool needed = task.kind == TaskKind::kForward ||
                        flow.values()[operands[1 - i]].trained;
    if (needed) operation->x[swapped ? 1 - i : i] = read.at(next++);
  }
  if (task.kind == TaskKind::kForward) return {};
  UCUDNN_ASSIGN_OR_RETURN(auto gradients,
                          OperandGradients(flow, index, training, task, 1));
  if (swapped) std::swap(gradients[0], gradients[1]);
  operation->factors = {gradients[0], gradients[1]};
  return {};
}

}  // namespace ucudnn
