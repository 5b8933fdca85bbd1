#ifndef UCUDNN_SOLVER_ARENA_CONCURRENCY_H_
#define UCUDNN_SOLVER_ARENA_CONCURRENCY_H_

// Which kernels of a network may run at the same time
// (base/plan/concurrency.h), by which the shared arena (solver/arena/ws.h) is
// laid out.
//
// Two kernels may coincide if the network's graph has no path from one to the
// other. This partial order is decomposed into components: a set of groups
// without paths between them is their Parallel; a set of groups with paths from
// all of one to all of the next is their Serial. A set that is neither is not
// series-parallel (it contains a shape like a->c, b->c, b->d); it becomes a
// Parallel of chains, which lets more kernels coincide than the graph does,
// never fewer: the arena stays safe, but may be larger than needed. `exact` is
// then false.
//
// In training, forward and backward passes do not overlap; the backward pass
// has the same structure, reversed, and a layer's two backward kernels run one
// after the other in the stream of their branch.
//
// All functions are pure and thread-safe.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/conv_problem.h"
#include "base/graph.h"
#include "base/plan/concurrency.h"
#include "base/result.h"

namespace ucudnn {

// A strict partial order of 0 to size() - 1. O(size()^2) bits of memory.
class PartialOrder {
 public:
  static constexpr std::size_t kMaxSize = 16384;

  // The empty order: no element is before another. `size` is at most kMaxSize.
  explicit PartialOrder(std::size_t size);

  std::size_t size() const { return size_; }
  bool Before(std::size_t a, std::size_t b) const;

  // Puts `a`, and all before it, before `b`. Call it only once `a` has all its
  // predecessors.
  void Put(std::size_t a, std::size_t b);

 private:
  friend class OrderDecomposer;

  std::size_t size_;
  std::size_t words_;                  // of one row
  std::vector<std::uint64_t> before_;  // row b: what is before b
};

// The structure of a non-empty order. O(size^2 / 64) for each level of nesting.
Concurrency Decompose(const PartialOrder& order);

// The order in which the graph's convolutions, numbered in graph order, must
// run. kInvalidArgument if there are none or more than kMaxSize.
Result<PartialOrder> ConvolutionOrder(const Graph& graph);

// One kernel of a layer, by the layer's number.
struct LayerKernel {
  std::size_t layer = 0;
  ConvOp op = ConvOp::kForward;
};

// The structure of one training iteration over `kernels`, which become the
// leaves, from that of the layers: the forward kernels, then the backward ones
// in reverse. Omits layers without kernels. kInvalidArgument if there is no
// kernel, a layer is not a leaf of `layers`, or a kernel occurs twice.
Result<Concurrency> OfTraining(const Concurrency& layers,
                               std::span<const LayerKernel> kernels);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_CONCURRENCY_H_
