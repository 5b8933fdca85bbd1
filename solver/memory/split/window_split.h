#ifndef UCUDNN_SOLVER_MEMORY_SPLIT_WINDOW_SPLIT_H_
#define UCUDNN_SOLVER_MEMORY_SPLIT_WINDOW_SPLIT_H_

// Split-CNN in one dimension: a window-based operation computed in parts, each
// from its own part of the input alone.
//
// The output's parts begin at O_0 = 0 < O_1 < ..., the input's at I_0 = 0 <
// I_1 < ...; p_b is the padding before, k the window's extent, s its stride.
//
//   lb(I_i) = O_i s - p_b                the first element that part i reads
//   ub(I_i) = (O_i - 1) s - p_b + k      behind the last that part i - 1 reads
//   I_i in [lb(I_i), ub(I_i)];  I_i = lb(I_i) where k < s leaves a gap
//   padding of part i: I_i - lb(I_i) before, max(0, ub(I_i+1) - I_i+1) after;
//                      the operation's own at the ends
//
//   k = 3, s = 1, p_b = 1, cut before O_1 = 3:     lb = 2, ub = 4, I_1 = 3
//
//   whole:  . 0 1 2 3 4 5 .        parts:  . 0 1 2 .     . 3 4 5 .
//           \_0_/     \_5_/                \_0_/          \_3_/
//             ...                              \_2_/          \_5_/
//
// Output 2 no longer reads input 3 but padding: the network is another one.
//
// Source: Split-CNN (Jin and Hong, ASPLOS 2019) 3.1, from notes that lack its
// equations; derived here from what each padding is for.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/graph.h"

namespace ucudnn {

// Where the input may be cut for the output to be cut before element `output`,
// which is not its first: at any place from lb to ub.
struct CutRange {
  std::int64_t low = 0;
  std::int64_t high = 0;

  friend bool operator==(const CutRange&, const CutRange&) = default;
};
CutRange CutsFor(const Window& window, std::int64_t output);

// Elements [begin, end) of a dimension.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }

  friend bool operator==(const Interval&, const Interval&) = default;
};

// The window of the part of the operation that computes `output` of
// `all_outputs` elements from `input`: the same with the part's padding.
// `input` begins and ends where CutsFor allows it.
Window WindowOfPart(const Window& window, Interval input, Interval output,
                    std::int64_t all_outputs);

// An operation of several that follow each other: it reads tensor `input` and
// makes tensor `output`.
struct WindowStep {
  std::size_t input = 0;
  std::size_t output = 0;
  Window window;
};

// Where every tensor is cut.
struct Cuts {
  std::vector<std::int64_t> places;  // by tensor
  // If there is no solution, a step that shows it: it needs its input cut in
  // the one range, everything else in the other.
  struct Conflict {
    std::size_t step = 0;
    CutRange needed;
    CutRange allowed;
  };
  std::optional<Conflict> conflict;
};

// Cuts tensors of these sizes so that tensor `last` is cut before element
// `place` and every step between the parts before and behind. In reverse order
// of `steps` (which are in order of execution) each tensor takes the place
// nearest to the middle, rounded up, of what the choices made so far leave
// open, the lower one of two. So a solution is found if there is one, and no
// place falls as `place` rises.
//
// Both hold because CutsFor is a range between two rising functions: the least
// and the greatest places that satisfy every step alone satisfy all of them
// together, and of two solutions the smaller places are one, the larger too.
//
// O(tensors * steps) where ranges settle in a few passes.
Cuts FindCuts(const std::vector<WindowStep>& steps,
              const std::vector<std::int64_t>& sizes, std::size_t last,
              std::int64_t place);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_SPLIT_WINDOW_SPLIT_H_
