#ifndef UCUDNN_SOLVER_MEMORY_WHOLE_BLOCKS_H_
#define UCUDNN_SOLVER_MEMORY_WHOLE_BLOCKS_H_

// The least delay of one task for which other blocks make room: some are away
// on the host when it starts (`out`), some when it ends (`in`), and some are
// computed again after it (`again`). They take
//
//   min over ways w to run the task, and sets of whole blocks such that
//   bytes of again + out >= w.lack and bytes of again + in >= w.lack, of
//     w.base + wait(out) + max(time of again, wait(in))
//
// where wait(set) is how much later a link is done with the set than the tasks
// are: it carries blocks as a fluid, each from its own time on. `out` and `in`
// may differ, as some blocks may leave, and others return, during the task.
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

// If nothing is computed again, and any part of blocks may move. The problem
// needs no blocks.
double LeastDelayOfMoves(const RoomProblem& problem);

// If any part of blocks may move, or be computed again; never more than the
// delay with whole blocks. `again` has the blocks that can be computed again,
// by rising time a byte, without those that `skip` names; problem.blocks is not
// read. A delay of at most `enough` may be told too small. O(ways * blocks).
double LeastDelayInParts(const RoomProblem& problem,
                         const std::vector<RoomProblem::Block>& again,
                         const std::function<bool(std::size_t)>& skip,
                         double enough);

// A lower bound of the delay with whole blocks, the larger of two: with parts
// of blocks in `in`, and with parts in `out`. Each by branch and bound, best
// first; after so many nodes it is the least that any open node promises. A
// delay of at most `enough` may be told too small. Infinite if all blocks
// together are smaller than what lacks. O(nodes * blocks).
double LeastDelayOfWholeBlocks(const RoomProblem& problem, std::size_t nodes,
                               double enough);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_WHOLE_BLOCKS_H_
