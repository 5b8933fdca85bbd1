#include "solver/memory/whole_blocks.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "solver/memory/least_time.h"

namespace ucudnn {
namespace {

using Block = RoomProblem::Block;
using Link = RoomProblem::Link;

double LinkWait(const Link& link, double bytes) {
  return (bytes - link.moved) / link.rate;
}

// How long the tasks wait for a link.
struct Wait {
  double least;   // for the blocks that are decided to move
  double of_all;  // for these and all bytes that still lack
  double rate;
  // If so many of the bytes that still lack are computed again instead.
  double Without(double bytes) const {
    return std::max(least, of_all - bytes / rate);
  }
};

struct Undecided {
  double base;
  double time;  // of what is computed again
  Wait out;
  Wait in;
  double most;  // more bytes that may be computed again
};

// The least delay over how many bytes are computed again, those of the first
// blocks first: `recomputable` is by rising time a byte, so the delay is convex
// in the bytes, and is least where it bends.
template <typename Skip>
double LeastInParts(const Undecided& left,
                    const std::vector<Block>& recomputable, double enough,
                    const Skip& skip) {
  double least = kNever;
  double done = 0;  // bytes computed again
  double time = left.time;
  const auto try_at = [&](double bytes, double per_byte) {
    const double taken = time + per_byte * (bytes - done);
    least = std::min(least, left.base + left.out.Without(bytes) +
                                std::max(taken, left.in.Without(bytes)));
  };
  try_at(0, 0);
  for (std::size_t i = 0; i < recomputable.size(); ++i) {
    if (done >= left.most || left.base + time >= least) break;
    if (least <= enough) break;
    if (skip(i)) continue;
    const double per_byte = recomputable[i].per_byte;
    const double end = std::min(done + recomputable[i].bytes, left.most);
    // Where the delay bends.
    const Wait& out = left.out;
    const Wait& in = left.in;
    for (const double bytes : {end, (out.of_all - out.least) * out.rate,
                               (in.of_all - in.least) * in.rate,
                               (in.of_all - time + per_byte * done) * in.rate /
                                   (1 + in.rate * per_byte)}) {
      try_at(std::clamp(bytes, done, end), per_byte);
    }
    time += per_byte * (end - done);
    done = end;
  }
  return least;
}

// A search for the whole blocks that one link carries; the other carries parts.
class WholeBlocks {
 public:
  enum class Side { kOut, kIn };

  WholeBlocks(const RoomProblem& problem, Side side)
      : problem_(problem),
        is_out_(side == Side::kOut),
        link_(is_out_ ? problem.out : problem.in),
        other_(is_out_ ? problem.in : problem.out) {
    for (const Block& block : problem.blocks) {
      if (!is_out_ || !block.host_has) blocks_.push_back(block);
    }
    std::ranges::sort(blocks_, {}, [&](const Block& block) {
      return std::tuple(block.divisible, -TimeOf(block), -block.bytes);
    });
    bytes_from_.assign(blocks_.size() + 1, 0);
    time_from_.assign(blocks_.size() + 1, 0);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      bytes_from_[i] = bytes_from_[i + 1] + blocks_[i].bytes;
      time_from_[i] = std::max(time_from_[i + 1], TimeOf(blocks_[i]));
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].per_byte < kNever) depths_.push_back(i);
    }
    std::ranges::stable_sort(
        depths_, {}, [&](std::size_t i) { return blocks_[i].per_byte; });
    for (const std::size_t depth : depths_)
      recomputable_.push_back(blocks_[depth]);
  }

  double Whole(std::size_t nodes, double enough) {
    for (const RoomProblem::Way& way : problem_.ways) Open(Root(way));
    while (!open_.empty() && known_ > std::max(enough, open_.top().least) &&
           nodes-- > 0) {
      const Node node = open_.top();
      open_.pop();
      Branch(node);
    }
    return open_.empty() ? kNever : open_.top().least;
  }

 private:
  // What the blocks before `depth` do is decided.
  struct Node {
    double base;
    double lack;            // bytes, beyond what is decided
    double moved = 0;       // bytes
    double wait = -kNever;  // for these; below 0 if the link is done early
    double time = 0;        // of what is computed again
    std::size_t depth = 0;
    double least = 0;  // with parts of the blocks that are undecided

    // The least is the top of a heap, and of equal ones the deepest.
    bool operator<(const Node& other) const {
      return std::tie(other.least, depth) < std::tie(least, other.depth);
    }
  };

  double TimeOf(const Block& block) const {
    return is_out_ ? block.out_time : block.in_time;
  }

  // All that the host has is dropped when the task starts.
  Node Root(const RoomProblem::Way& way) const {
    return {.base = way.base,
            .lack = way.lack - (is_out_ ? problem_.dropped : 0)};
  }

  // The delay if any part of the undecided blocks may move or be computed
  // again, and parts that move have the time of the block that has most.
  double InParts(const Node& node) const {
    const double lack = std::max(0.0, node.lack);
    const double dropped = is_out_ ? problem_.dropped : -problem_.dropped;
    const double other_lack = std::max(0.0, node.moved + node.lack + dropped);
    const double decided = std::max(node.wait, -time_from_[node.depth]);
    const Wait own{std::max(0.0, node.wait),
                   std::max(LinkWait(link_, node.moved + lack),
                            lack / link_.rate + decided),
                   link_.rate};
    const Wait other{0, LinkWait(other_, other_lack), other_.rate};
    return LeastInParts(
        Undecided{node.base, node.time, is_out_ ? own : other,
                  is_out_ ? other : own, std::max(lack, other_lack)},
        recomputable_, -kNever,
        [&](std::size_t i) { return depths_[i] < node.depth; });
  }

  // The next block stays, is computed again, or moves. Blocks are in the order
  // of falling time, so the link carries this one after those before it.
  void Branch(const Node& node) {
    const Block& block = blocks_[node.depth];
    Node next = node;
    ++next.depth;
    Open(next);
    next.lack -= block.bytes;
    if (block.per_byte < kNever) {
      next.time += block.per_byte * block.bytes;
      Open(next);
      next.time = node.time;
    }
    next.moved += block.bytes;
    next.wait = block.bytes / link_.rate + std::max(node.wait, -TimeOf(block));
    Open(next);
  }

  void Open(Node node) {
    if (bytes_from_[node.depth] < node.lack) return;
    node.least = InParts(node);
    const bool solved = node.lack <= 0 || blocks_[node.depth].divisible;
    if (solved) known_ = std::min(known_, node.least);
    open_.push(node);
  }

  const RoomProblem& problem_;
  const bool is_out_;
  const Link link_;
  const Link other_;
  std::vector<Block> blocks_;        // by falling time, divisible ones last
  std::vector<double> bytes_from_;   // by depth: of all undecided blocks
  std::vector<double> time_from_;    // by depth: the most of them
  std::vector<Block> recomputable_;  // by rising time a byte
  std::vector<std::size_t> depths_;  // of these
  std::priority_queue<Node> open_;
  double known_ = kNever;  // the least of nodes with nothing left to decide
};

}  // namespace

double LeastDelayOfMoves(const RoomProblem& problem) {
  double least = kNever;
  for (const RoomProblem::Way& way : problem.ways) {
    const double out = LinkWait(problem.out, way.lack - problem.dropped);
    const double in = LinkWait(problem.in, way.lack);
    least = std::min(least, way.base + std::max(0.0, out) + std::max(0.0, in));
  }
  return least;
}

double LeastDelayInParts(const RoomProblem& problem,
                         const std::vector<RoomProblem::Block>& recomputable,
                         const std::function<bool(std::size_t)>& skip,
                         double enough) {
  double least = kNever;
  // From the fastest on, so that most are ruled out by their times.
  for (auto way = problem.ways.rbegin(); way != problem.ways.rend(); ++way) {
    if (least <= enough || way->base >= least) break;
    const double lack = std::max(0.0, way->lack);
    const double leaves = way->lack - problem.dropped;
    const Wait out{0, LinkWait(problem.out, leaves), problem.out.rate};
    const Wait in{0, LinkWait(problem.in, lack), problem.in.rate};
    const Undecided left{way->base, 0, out, in, lack};
    least = std::min(least, LeastInParts(left, recomputable, enough, skip));
  }
  return least;
}

double LeastDelayOfWholeBlocks(const RoomProblem& problem, std::size_t nodes,
                               double enough) {
  using Side = WholeBlocks::Side;
  const double out = WholeBlocks(problem, Side::kOut).Whole(nodes, enough);
  const double in =
      WholeBlocks(problem, Side::kIn).Whole(nodes, std::max(enough, out));
  return std::max(out, in);
}

}  // namespace ucudnn
