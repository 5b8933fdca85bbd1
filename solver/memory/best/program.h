#ifndef UCUDNN_SOLVER_MEMORY_BEST_PROGRAM_H_
#define UCUDNN_SOLVER_MEMORY_BEST_PROGRAM_H_

// The order in which a round runs its tasks, and when it needs which blocks.
//
//   place        0    1    2    3    4    5    6
//   task         c1   c2   c3  loss  c3'  c2'  c1'
//   c1.Y         W    R                   R
//                          |  a gap  |
//
// Between two uses of a block lies a gap, in which it may be away from the
// device: it leaves for the host after the first use and returns before the
// second. Where the second use overwrites the block, nothing need return.
//
// With recomputation, tasks of the forward pass run again just before the
// backward pass first needs what they compute.
//
// Pure; O(uses).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "solver/memory/round_model.h"

namespace ucudnn {

struct BlockGap {
  std::size_t block = 0;
  // The uses around it, as places in the program. -1 is the start of the round,
  // the program's size its end.
  int after = -1;
  int until = 0;
  // Where its contents were computed; -1: before the round, so the host has
  // them.
  int written = -1;
  // The block is not on the device when the round starts, or ends.
  bool forced = false;
};

struct ProgramChoices {
  // By block; empty where there are none. Activations that are computed again
  // instead of being kept until the backward pass.
  std::vector<bool> recomputed;
  // Of these, those that are computed again each time another one is computed
  // from them, instead of being kept from then on.
  std::vector<bool> repeated;
  // Persistent blocks that live on the host.
  std::vector<bool> hosted;
  // Inputs can be dropped and fetched again.
  bool inputs_leave = true;
  // What the round computes may leave for the host.
  bool activations_leave = true;

  friend bool operator==(const ProgramChoices&,
                         const ProgramChoices&) = default;
};

struct RoundProgram {
  const RoundModel* round = nullptr;
  ProgramChoices choices;
  std::vector<std::size_t> tasks;  // of the graph; some come twice
  std::vector<char> reruns;        // by place: its task has run before
  std::vector<std::int64_t> size;  // by block, aligned
  std::int64_t resident = 0;       // bytes that never leave
  std::vector<std::int64_t> live;  // by place: other bytes if no block leaves
                                   // in its gaps, without workspace, with the
                                   // reserve of KeepReserve
  std::vector<BlockGap> gaps;      // by `after`, then block
  std::vector<std::size_t> dies;   // blocks, by the place of their last use
  std::vector<std::size_t> dies_until;  // by place: where its part of them ends

  // The blocks that are last used at a place.
  std::span<const std::size_t> DiesAt(std::size_t place) const {
    const std::size_t first = place == 0 ? 0 : dies_until[place - 1];
    return std::span(dies).subspan(first, dies_until[place] - first);
  }
  int end() const { return static_cast<int>(tasks.size()); }
};

// Whether the block can be computed again: an activation, statistics or a
// mask's equal that recomputable tasks of the forward pass alone write, and
// that the backward pass reads. By block.
std::vector<bool> RecomputableBlocks(const RoundModel& round);

// Makes programs of a round. Not to be used by several threads at once.
class ProgramMaker {
 public:
  // `round` must outlive the maker and its programs.
  explicit ProgramMaker(const RoundModel& round);

  // Absent if with these choices a task would find other contents than in
  // program order, or there were three times as many tasks as in the round.
  std::optional<RoundProgram> Make(ProgramChoices choices);

 private:
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

  // What a task does with a block.
  struct Access {
    std::size_t block;
    bool reads;
    bool writes;
    bool only_rerun;     // only when the task runs again, by its recipe
    std::size_t writer;  // of what it reads, in program order
  };
  struct Use {
    int place;
    bool reads;
    bool writes;
  };

  std::span<const Access> AccessesOf(std::size_t task) const {
    return std::span(accesses_).subspan(
        first_access_[task], first_access_[task + 1] - first_access_[task]);
  }
  void FindAccesses();
  void FindWriters();

  // A limit: a block that is repeated for another repeated one doubles how
  // often it is computed, and so on down a chain of them.
  std::size_t MostTasks() const { return 3 * round_.tasks.size(); }
  // The order of tasks; longer than MostTasks if it was given up.
  std::vector<std::size_t> Order(const ProgramChoices& choices);
  void Restore(std::size_t task, const ProgramChoices& choices,
               std::vector<std::size_t>* order);
  std::vector<char> FindReruns(const std::vector<std::size_t>& order);
  bool ReadsAsInProgramOrder(const RoundProgram& program);
  void FindUses(const RoundProgram& program);
  void AddBlock(std::size_t block, RoundProgram* program);
  void SortByPlace(RoundProgram* program);

  const RoundModel& round_;
  std::vector<Access> accesses_;
  std::vector<std::size_t> first_access_;  // by task, and the end
  std::vector<std::size_t> last_writer_;   // by block, in program order
  std::vector<std::size_t> last_forward_;  // by block: place of its last use
  std::vector<std::vector<std::size_t>> forward_writers_;  // by block
  std::vector<std::int64_t> size_;                         // by block, aligned
  // Scratch.
  std::vector<char> missing_;                        // by block
  std::vector<char> ran_;                            // by task
  std::vector<std::size_t> writer_;                  // by block
  std::vector<std::vector<Use>> uses_;               // by block
  std::vector<std::int64_t> change_;                 // by place
  std::vector<std::pair<int, std::size_t>> deaths_;  // places with blocks
};

// The same for one program.
std::optional<RoundProgram> MakeProgram(const RoundModel& round,
                                        ProgramChoices choices);

// Adds a reserve to what is live at each place, up to this part of the
// capacity, so that moves leave room in which addresses are found easily. Where
// most bytes must be away decides how long a round takes that waits for
// transfers, so there the reserve is 0; it grows as less must be away, and is
// whole where all fits.
void KeepReserve(double part, std::int64_t capacity, RoundProgram* program);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_BEST_PROGRAM_H_
