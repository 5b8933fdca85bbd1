#ifndef UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_
#define UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_

// The least time of one round at any batch: the second bound of bounds.h.
// Symbols: docs/solver.md.
//
// Four tasks within M = 160 bytes; the link carries 2 bytes a microsecond each
// way. The loss is faster with workspace. (round_bound_test.cc has the same
// numbers.)
//
//   place i         0     1       2        3
//   task            a     b      loss      a'
//   us             100    20  260/100/60   50    with 0/70/80 bytes
//   X 100 bytes     W     R       .        R
//   Y  20                 W       R
//   D  20                         W        R
//   E  20                                  W
//   excess         -60   -40     -20      -20
//   out            100                           may leave once a is done
//   in                                    100    must be back before a'
//
// Before the loss the link carries 2 * 20 bytes out, while b runs, and after it
// none back, since a' follows. Its ways:
//
//     t_w, s_w   lack     reach             leave           round
//     260,  0     -20  120              50              430 us
//     100, 70      50  120 + (50-40)/2  50 + 50/2       300
//      60, 80      60  120 + (60-40)/2  50 + 60/2       270
//
// But X is one block. If 100 bytes leave, the third way takes 290, and if 100
// return, 290, too; the others take longer. So the bound is 290 us. (The best
// plan takes 310: X leaves and returns as a whole.)
//
// In general a link is a fluid: it carries the bytes of each block from when
// that was computed (out), or until it is needed next (in). Every task before i
// runs in the way in which it ends first, once enough has left for that, and
// likewise backwards in time for those after it. What the host has from the
// beginning, inputs and weights that may leave, is dropped without a copy. A
// block that is in use from its first task to its last neither leaves nor
// returns.
//
// With recomputation other tasks take their fastest ways, and some of lack_iw
// is computed again instead of moved: the cheapest bytes first, as in a
// fractional knapsack. What a block is computed from must then be there, too:
// moved, or computed again itself.
//
// Pure.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/training/graph.h"
#include "base/units.h"
#include "solver/memory/bounds.h"
#include "solver/memory/least_time.h"
#include "solver/memory/whole_blocks.h"

namespace ucudnn {

// Whether the block stays on the device from one round to the next unless a
// plan moves it, and the bytes of all that do.
bool Stays(const MemoryBlock& block, bool accumulates);
Bytes Staying(const TrainingGraph& graph, bool accumulates);

// All blocks that the task touches, each once.
std::vector<std::size_t> BlocksOf(const Task& task);

// Refers to the graph, which must outlive it.
class RoundBound {
 public:
  enum class Updates { kNone, kInOrder, kAnywhere };

  RoundBound(const TrainingGraph& graph, bool accumulates, Updates updates,
             const MemoryFreedom& freedom);

  // The tasks in order.
  const std::vector<std::size_t>& tasks() const { return tasks_; }
  // Bytes that stay.
  double fixed() const { return fixed_; }
  // Bytes of the task at `place` besides these.
  double Need(std::size_t place, BatchSize batch) const;

  // By place: the ways to run its task (LeastCosts).
  using Costs = std::vector<std::vector<LeastCost>>;
  // The bound in nanoseconds; kNever (least_time.h) if a task does not fit.
  double Bound(BatchSize batch, Bytes budget, Costs costs) const;

 private:
  double Size(std::size_t block, BatchSize batch) const {
    return static_cast<double>(graph_.blocks[block].SizeAt(batch).count());
  }
  // A block that a recipe reads and that can be computed again itself.
  struct Source {
    std::size_t block;
    std::vector<std::size_t> writers;  // places, before it is read
    double share;  // of its time; the shares of all recipes that read it sum to
                   // 1, as it may be computed again once for all of them
  };
  // How to compute a block again that only recomputable tasks of the forward
  // pass write.
  struct Recipe {
    std::size_t block;
    std::vector<std::size_t> writers;  // places
    std::vector<Source> sources;
    std::size_t sources_end = 0;  // the place after the last use of them all
  };
  // Computing a block again makes room for the tasks at places in [first, end).
  struct Item {
    double per_byte;  // ns
    std::size_t block;
    std::size_t first;
    std::size_t end;
    bool divisible;  // a part of it may count: its sources may be away instead
  };

  void FindRecipes();
  void FindSources();
  // The block's part of the time of the tasks at these places: the blocks that
  // a task writes share its time by their bytes.
  double TimeOf(std::size_t block, const std::vector<std::size_t>& places,
                BatchSize batch, const std::vector<double>& times) const;
  // The least time a byte to compute the block again, in `time`, if none of its
  // sources is there.
  double TimeWithSources(const Recipe& recipe, double time, BatchSize batch,
                         const std::vector<double>& times) const;
  // By rising time a byte.
  std::vector<Item> ItemsOf(BatchSize batch,
                            const std::vector<double>& times) const;
  // By place, all in bytes.
  struct Moves {
    std::vector<double> excess;   // below 0 if there is room
    std::vector<double> dropped;  // blocks that the task does not use and that
                                  // the host has: they need no copy
    std::vector<double> out;      // may leave once the task is done
    std::vector<double> back;     // must be back before the task
  };
  Moves MovesOf(BatchSize batch, Bytes budget) const;
  double WithMoves(BatchSize batch, const Costs& costs,
                   const Moves& moves) const;
  double WithRecomputation(BatchSize batch, const Costs& costs,
                           const Moves& moves) const;
  // How room is made for the tasks.
  struct Rooms {
    std::function<RoomProblem(std::size_t)> at;  // a place, without blocks
    std::vector<double> before;  // by place: the least time before it
    std::vector<double> after;   // and after it
    std::vector<Item> items;
  };
  // Whether the item makes room for the task.
  bool MakesRoom(const Item& item, std::size_t place) const;
  // All live blocks that the task does not use.
  std::vector<RoomProblem::Block> OtherBlocks(std::size_t place,
                                              BatchSize batch,
                                              const Rooms& rooms) const;
  // The largest delay of any task: first with parts of blocks, then of a few
  // tasks with whole blocks.
  double LargestDelay(BatchSize batch, const Rooms& rooms) const;

  const TrainingGraph& graph_;
  const bool recomputes_;
  const double fixed_;
  std::vector<bool> stays_;         // by block: never leaves
  std::vector<bool> host_has_;      // by block: can be dropped without a copy
  std::vector<std::size_t> tasks_;  // of the graph, in order
  std::vector<std::size_t> anywhere_;          // updates in no order
  std::vector<std::vector<std::size_t>> own_;  // blocks that do not stay
  // When each such block is used, by place of the task.
  struct Uses {
    std::size_t first;
    std::size_t last;
    std::vector<std::size_t> reads;  // ascending
    // The last place before which the block may have been away; absent if it is
    // never away. It may be away between two uses with a task other than an
    // update in between, and before its first use if the host has it. If a
    // block is computed again from it, it may be away until that one's last
    // use.
    std::optional<std::size_t> returns;
  };
  std::map<std::size_t, Uses> uses_;
  std::vector<Recipe> recipes_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_
