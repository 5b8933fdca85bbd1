#ifndef UCUDNN_SOLVER_MEMORY_SPLIT_SPLIT_LAYOUT_H_
#define UCUDNN_SOLVER_MEMORY_SPLIT_SPLIT_LAYOUT_H_

// Which nodes of a network are computed in parts, and where their tensors are
// cut; solver/memory/split/split.h has the rules.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/graph.h"
#include "base/result.h"
#include "solver/memory/split/split.h"
#include "solver/memory/split/window_split.h"

namespace ucudnn {

// An axis that is split: its place in Spatial, and from the end of a tensor's
// shape.
struct SplitAxis {
  std::string_view name;
  std::size_t spatial;
  std::size_t from_end;

  std::int64_t ExtentOf(const Tensor& tensor) const {
    return tensor.shape[tensor.shape.size() - from_end];
  }
};
inline constexpr std::array kSplitAxes = {SplitAxis{"height", 1, 2},
                                          SplitAxis{"width", 2, 1}};

struct SplitLayout {
  std::size_t join = 0;  // the tensor at which the parts are put together
  std::size_t end = 0;   // behind the node that computes it
  // By node up to `end`: whether it is computed in parts, and how it reads its
  // inputs. The others, of shapes and constants, are computed once.
  std::vector<bool> in_parts;
  std::vector<std::array<Window, 3>> windows;
  std::vector<std::size_t> inputs;  // tensors that the model is given
  // By tensor: inputs and what nodes make of them; and of these, what only the
  // parts have.
  std::vector<bool> data;
  std::vector<bool> split;
  // By axis, tensor and part; the largest of a stochastic split overlap.
  std::array<std::vector<std::vector<Interval>>, 2> intervals;
};

// Errors of SplitGraph.
Result<SplitLayout> LayOutSplit(const Graph& graph, const SplitOptions& options,
                                std::optional<std::uint64_t> draw);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_SPLIT_SPLIT_LAYOUT_H_
