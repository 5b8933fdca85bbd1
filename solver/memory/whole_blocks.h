#ifndef UCUDNN_SOLVER_MEMORY_WHOLE_BLOCKS_H_
#define UCUDNN_SOLVER_MEMORY_WHOLE_BLOCKS_H_

// The least delay of one task for which other blocks make room: a step of the
// bound of round_bound.h. Symbols: docs/solver.md.
//
// The task lacks 150 bytes, and only A and B, 100 bytes each, can make room.
// The link out carries a byte a nanosecond; B was computed 80 ns before the
// task, A 40. To compute A again takes 50 ns, B 90. There is time enough for
// both to return. (whole_blocks_test.cc has the same numbers.)
//
//   ns         -80         -40          0     20          60
//   task                                | would start
//   B leaves    |---------------------------->|
//   A leaves                |---------------------------->|
//
// In parts: 80 bytes leave in time, and 70 of A are computed again: 35 ns.
// As whole blocks, decided one by one, those first that have most time:
//
//   B stays       lack 150   A has only 100
//   B again, 90   lack  50   A again, 90 + 50 = 140; A leaves, 90 + 60 = 150
//   B leaves, 20  lack  50   A again, 20 + 50 = 70: the least delay;
//                            A leaves after B, 200 - 80 = 120
//
// Another way to run the task that takes 30 ns more but lacks 90 bytes is
// better: B leaves, 30 + 20 = 50 ns.
//
// In general the blocks that leave before the task (out), those that return
// after it (in) and those that are computed again after it may be different
// ones; some leave early and return while the task runs. The delay is
//
//   min over w, and sets of blocks such that  again + out >= lack_w
//                                        and  again + in  >= lack_w, of
//     base_w + wait(out) + max(time of again, wait(in))
//
// where wait is how much longer the link needs for its blocks than the tasks
// take. Blocks are computed again while others return.
//
// All functions are pure.

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace ucudnn {

struct RoomProblem {
  struct Way {
    double base;  // ns
    double lack;  // bytes; not above 0 if there is room
  };
  struct Block {
    double bytes;
    // ns without waiting: from when it may leave to the task's start, and from
    // the task's end to when it is needed.
    double out_time = 0;
    double in_time = 0;
    bool host_has = false;  // it does not have to leave
    // ns a byte to compute it again; infinite if it cannot be.
    double per_byte = std::numeric_limits<double>::infinity();
    bool divisible = false;  // any part of it may move or be computed again
  };
  struct Link {
    double rate;   // bytes a nanosecond
    double moved;  // bytes at most, of all blocks, without waiting
  };

  std::vector<Way> ways;
  std::vector<Block> blocks;
  Link out;
  Link in;
  double dropped = 0;  // bytes of all blocks that the host has
};

// If nothing is computed again, and any part of blocks may move; problem.blocks
// is not read.
double LeastDelayOfMoves(const RoomProblem& problem);

// If any part of blocks may move, or be computed again; never more than the
// delay with whole blocks. `recomputable` has the blocks that can be computed
// again, by rising time a byte, and `skip` says which of them not to;
// problem.blocks is not read. If the delay is at most `enough`, the answer may
// be smaller still. O(ways * blocks).
double LeastDelayInParts(const RoomProblem& problem,
                         const std::vector<RoomProblem::Block>& recomputable,
                         const std::function<bool(std::size_t)>& skip,
                         double enough);

// A lower bound of the delay with whole blocks, the larger of two: with parts
// of blocks in `in`, and with parts in `out`. Each by branch and bound, the
// least promise first; after so many nodes the answer is the least that any
// open node promises. If the delay is at most `enough`, the answer may be
// smaller still. Infinite if all blocks together have less than what lacks.
// O(nodes * blocks).
double LeastDelayOfWholeBlocks(const RoomProblem& problem, std::size_t nodes,
                               double enough);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_WHOLE_BLOCKS_H_
