#ifndef UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_
#define UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_

// The least time of one round at any batch; bounds.h says what it is. Pure.

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
             const PlanFreedom& freedom);

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
  // A block that writers of another one read.
  struct Source {
    std::size_t block;
    std::vector<std::size_t> writers;  // places, before it is read
    double share;  // of it; those of all blocks that need it are 1 together
  };
  // A block that only recomputable tasks of the forward pass write.
  struct Recomputable {
    std::size_t block;
    std::vector<std::size_t> writers;  // places
    std::vector<Source> sources;
    std::size_t sources_end = 0;  // the place after the last use of them all
  };
  // One way to make room by computing a block again, for the tasks at places in
  // [first, end).
  struct Item {
    double per_byte;  // ns
    std::size_t block;
    std::size_t first;
    std::size_t end;
    bool divisible;  // not as a whole: its sources may be away instead of it
  };

  void FindRecomputable();
  void FindSources();
  // What a block has of the time of the tasks at these places if they run
  // again: their time is shared by the blocks that they write.
  double TimeOf(std::size_t block, const std::vector<std::size_t>& places,
                BatchSize batch, const std::vector<double>& times) const;
  // The least time a byte to compute the block again if none of its sources is
  // there.
  double TimeWithSources(const Recomputable& again, double time,
                         BatchSize batch,
                         const std::vector<double>& times) const;
  // By rising time a byte.
  std::vector<Item> ItemsOf(BatchSize batch,
                            const std::vector<double>& times) const;
  // By place, all in bytes. What is released before a place, or back after it,
  // is all that can have left then, or can still return.
  struct Moves {
    std::vector<double> excess;   // that lack beside the task's blocks; less
                                  // than 0 if there is room
    std::vector<double> dropped;  // of the other blocks, what the host has: it
                                  // need not leave
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
  bool IsBeside(const Item& item, std::size_t place) const;
  // All blocks that are live beside the task.
  std::vector<RoomProblem::Block> BlocksBeside(std::size_t place,
                                               BatchSize batch,
                                               const Rooms& rooms) const;
  // Of the task that has the largest one: with parts of blocks, and of some
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
    // The last use before which the block may have been away; absent if it is
    // never away. It may be away between two uses that a task other than an
    // update separates, before its first use if the host has it, and before a
    // block that is computed from it is used last.
    std::optional<std::size_t> returns;
  };
  std::map<std::size_t, Uses> uses_;
  std::vector<Recomputable> recomputable_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_ROUND_BOUND_H_
