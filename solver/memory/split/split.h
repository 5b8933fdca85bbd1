#ifndef UCUDNN_SOLVER_MEMORY_SPLIT_SPLIT_H_
#define UCUDNN_SOLVER_MEMORY_SPLIT_SPLIT_H_

// Split-CNN: the first layers of a network computed in parts of the image, one
// part after the other, so that fewer of their activations are needed at once.
// This is another network: at inner edges a window reads padding in place of
// what lies in the next part, and normalisations have statistics per part.
//
//   image --+-- h0w0 -- conv1.h0w0 -- pool1.h0w0 --+
//           +-- h0w1 -- conv1.h0w1 -- pool1.h0w1 --+-- join -- conv2 -- ...
//           +-- h1w0 -- conv1.h1w0 -- pool1.h1w0 --+
//           +-- h1w1 -- conv1.h1w1 -- pool1.h1w1 --+
//
// The parts share their parameters. The image's parts are inputs of their own:
// whoever loads the image cuts it.
//
// Source: Split-CNN (Jin and Hong, ASPLOS 2019), from notes without its
// figures: 3.1 (one layer, see window_split.h), 3.2 (a layer's input is cut
// where the output of the layer before it is), 3.3 (stochastic splitting), 4.1
// (depth, h and w).
//
// Where the source leaves it open:
//   - The split layers are the shortest prefix of the model's nodes with the
//     share `depth` of its convolutions, rounded up, after which one tensor
//     alone is live. There the parts are put together by one Concat.
//   - That tensor is cut evenly, at O_i = floor(i N / n); every tensor before
//     it in the middle of what all its readers allow, I_i =
//     floor((lb + ub + 1) / 2), or as near to it as the layers before allow
//     (FindCuts): at ResNet's strided blocks the middle alone has no solution.
//     Rounded up, since most parts then need as much padding before as after,
//     which is all that devices' convolutions have. Those that need more on one
//     side read a padded copy of their input.
//   - Stochastic splitting draws each O_i anew for every iteration, up to a
//     fifth of a part to either side; every cut before it moves by as much,
//     times the strides between, so that draws differ in sizes alone. Plans
//     are made for a graph in which each part has the largest size of all
//     draws, so that one plan holds for every iteration. Its parts overlap, and
//     take more time and memory than any one draw.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/graph.h"
#include "base/result.h"

namespace ucudnn {

// The most parts of an image.
inline constexpr int kMaxSplitParts = 64;

struct SplitOptions {
  double depth = 1;  // the share of the convolutions, above 0 and up to 1
  int height_parts = 1;
  int width_parts = 1;
  bool stochastic = false;

  friend bool operator==(const SplitOptions&, const SplitOptions&) = default;
};

// "0.5,2,2" or "0.5,2,2,stochastic". kInvalidArgument, naming the field, its
// value and what is accepted.
Result<SplitOptions> ParseSplitOptions(std::string_view text);
// What it reads back.
std::string ToString(const SplitOptions& options);

// A depth at which a network's parts can be put together.
struct SplitDepth {
  // Of SplitOptions; the number of fewest decimals that means this depth.
  double depth = 1;
  std::int64_t convolutions = 0;      // in parts
  std::int64_t all_convolutions = 0;  // of the network
  std::string last_node;              // whose output the parts are parts of

  friend bool operator==(const SplitDepth&, const SplitDepth&) = default;
};

// All of them, by rising depth. kInvalidArgument if there is none.
// O(nodes * live tensors).
Result<std::vector<SplitDepth>> SplitDepths(const Graph& graph);

// The split network, named "vgg19 (split 0.5,2,2)"; of a stochastic split with
// the largest parts, or with those of the draw that follows from this number.
// They have the same tensors and nodes. kInvalidArgument, naming
// the node or tensor, where the network cannot be split so. Nodes that can be:
// Conv, MaxPool and AveragePool of known windows, and those that compute each
// element, or each place of the image, for itself. O(nodes * parts).
Result<Graph> SplitGraph(const Graph& graph, const SplitOptions& options,
                         std::optional<std::uint64_t> draw = std::nullopt);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_SPLIT_SPLIT_H_
