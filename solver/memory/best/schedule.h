#ifndef UCUDNN_SOLVER_MEMORY_BEST_SCHEDULE_H_
#define UCUDNN_SOLVER_MEMORY_BEST_SCHEDULE_H_

// Given the gaps in which blocks are away, when they leave and return, with how
// much workspace every task runs, and how long the round takes.
//
// Memory is counted at boundaries, which lie before every task:
//
//   boundary k-1     task k-1      boundary k      task k
//        |--------------------------------|----------------------
//                                         | 1. blocks that have left are freed;
//                                         |    wait for those whose memory
//                                         |    task k needs
//                                         | 2. memory for fetches, if all tasks
//                                         |    until the use can spare it
//                                         | 3. wait for what task k reads
//
// Offloads start in the order in which blocks were computed, as soon as they
// are; fetches in the order in which they are needed, as early as memory
// allows, but not before the link is about to be idle. Choices can exempt
// blocks from both orders. Each task takes the
// fastest option that it may and whose workspace fits beside the blocks that
// must be there. So
// a schedule is safe by its order alone, and EmitRound (emit.h) gives the same
// times by way of the Timeline.
//
// O(tasks + sum of the lengths of moved gaps), without allocation once its
// vectors have grown.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "solver/memory/best/program.h"
#include "solver/memory/best/task_options.h"

namespace ucudnn {

struct RoundChoices {
  // By gap: whether the block is away in it. Forced gaps are.
  std::vector<char> moved;
  // By place: the last option that its task may take, to leave memory to
  // others.
  std::vector<std::uint32_t> most;
  // By gap: after how many more tasks its offload starts, but no later than
  // once the use before the gap has ended.
  std::vector<int> deferred;
  // By gap: its fetch may overtake those that cannot start.
  std::vector<char> overtaking;
};

struct RoundSchedule {
  bool fits = false;       // nothing else is set otherwise
  std::int64_t time = 0;   // ns
  std::int64_t moved = 0;  // bytes, both ways
  // By place: the option of its task.
  std::vector<std::uint32_t> option;
  // By gap, for those that are moved: the boundaries at which its memory is
  // freed and taken again. A block that could not leave in time has `freed` ==
  // `fetched`, and stays. -1 and the program's size are the round's ends.
  std::vector<int> freed;
  std::vector<int> fetched;
  // The gaps whose blocks are copied to the host, in the order of the copies,
  // and the places after which these start.
  struct Copy {
    std::size_t gap;
    int place;
  };
  std::vector<Copy> copies;
};

// What schedules of a program have in common, and scratch space for them. Not
// to be used by several threads at once.
class Scheduler {
 public:
  // Both must outlive the scheduler.
  Scheduler(const RoundProgram& program, const TaskOptions& options);

  // With all blocks on the device, but those that are forced away, and no
  // limits on options.
  RoundChoices NoChoices() const;

  // `capacity`: bytes for all blocks and workspaces.
  void Schedule(const RoundChoices& choices, std::int64_t capacity,
                RoundSchedule* schedule);

  // All gaps, in the order in which their blocks are needed again.
  const std::vector<std::size_t>& by_until() const { return by_until_; }
  const RoundProgram& program() const { return program_; }
  // How many options the task at a place has.
  std::size_t OptionsAt(std::size_t place) const {
    return Options(place).size();
  }
  // The least workspace at each place.
  std::int64_t LeastWorkspace(std::size_t place) const {
    return Options(place).front().workspace;
  }

 private:
  struct Leaving {
    std::size_t gap;
    std::int64_t end;
  };

  const std::vector<TaskOption>& Options(std::size_t place) const {
    const std::size_t task = program_.tasks[place];
    return program_.reruns[place] != 0 ? options_.OfRerun(task)
                                       : options_.Of(task);
  }
  bool ChooseOptions(const RoundChoices& choices, std::int64_t capacity,
                     RoundSchedule* schedule);
  // The last place in [first, last) with less than `size` to spare, or -1.
  int LastWithout(std::int64_t size, int first, int last) const;

  const RoundProgram& program_;
  const TaskOptions& options_;
  const bool duplex_;
  std::vector<std::size_t> by_until_;       // gaps
  std::vector<std::int64_t> offload_time_;  // by gap
  std::vector<std::int64_t> fetch_time_;
  // Scratch.
  std::vector<std::int64_t> spare_;    // by place
  std::vector<std::int64_t> copied_;   // by block: when its copy ends
  std::vector<int> copy_of_;           // by block: where that was written
  std::vector<int> blocked_until_;     // by gap: no memory to fetch it before
  std::vector<std::int64_t> arrives_;  // by place: the last fetch for it
  std::vector<std::size_t> fetches_;   // moved gaps, by `until`
  std::vector<std::pair<int, std::size_t>> offloads_;  // moved, by start
  std::vector<Leaving> leaving_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_SCHEDULE_H_
