#ifndef UCUDNN_BASE_PLAN_CONCURRENCY_H_
#define UCUDNN_BASE_PLAN_CONCURRENCY_H_

// Which kernels of a plan may run at the same time, as a series-parallel
// structure, by which their workspaces may overlap or not.
//
//              +-- b --+            Serial( a,
//   a ---------+       +--- d                Parallel( b, Serial(c1, c2) ),
//              +- c1-c2+                     d )
//
// All functions are pure and thread-safe.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ucudnn {

struct WorkspacePlan;

struct Concurrency {
  enum class Kind { kLeaf, kSerial, kParallel };
  struct Node {
    Kind kind = Kind::kLeaf;
    std::size_t leaf = 0;            // kLeaf: the index of what runs
    std::vector<std::size_t> parts;  // otherwise: indices of earlier nodes

    friend bool operator==(const Node&, const Node&) = default;
  };
  // Parts come before their parents; the last node is the root.
  std::vector<Node> nodes;
  // Whether it lets no more kernels coincide than it was made from.
  bool exact = true;

  friend bool operator==(const Concurrency&, const Concurrency&) = default;
};

// `count` leaves, one after the other or all at once; `count` is positive.
Concurrency Chain(std::size_t count);
Concurrency AllConcurrent(std::size_t count);

// Adds a node over `parts` to the structure, or returns the only part.
// `parts` is not empty.
std::size_t Join(Concurrency::Kind kind, std::vector<std::size_t> parts,
                 Concurrency* concurrency);

// kInvalidArgument unless the nodes are a tree over the leaves 0 to
// `leaves` - 1, each once, with parts before their parents and no inner node
// without parts.
Status Validate(const Concurrency& concurrency, std::size_t leaves);

// The pairs of leaves that may coincide, (smaller, larger), rising.
// O(leaves^2).
std::vector<std::pair<std::size_t, std::size_t>> ConcurrentPairs(
    const Concurrency& concurrency);

// The text form, which plans have: what runs one after the other is separated
// by spaces, and what may run at once stands in brackets, separated by bars.
// "0 [1 | 2 3] 4" is the picture above. Of a valid structure.
std::string ToString(const Concurrency& concurrency);

// Reads back what ToString writes, up to the numbers of nodes.
// kInvalidArgument, naming the place, for other texts, and unless the leaves
// are 0 to `leaves` - 1.
Result<Concurrency> ParseConcurrency(std::string_view text, std::size_t leaves);

// kInvalidArgument, naming two kernels, if both may run at once by
// `concurrency`, whose leaves are the plan's kernels, and their workspaces
// overlap or have no offset. O(kernels log kernels) for each level of nesting.
Status CheckSegments(const WorkspacePlan& plan, const Concurrency& concurrency);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_CONCURRENCY_H_
