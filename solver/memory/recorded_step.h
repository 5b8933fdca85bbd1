#ifndef UCUDNN_SOLVER_MEMORY_RECORDED_STEP_H_
#define UCUDNN_SOLVER_MEMORY_RECORDED_STEP_H_

// Plans a training step that a framework recorded: which saved tensors stay on
// the device, which leave for the host and return, and which are computed
// again, so that the step fits into a budget and takes the least time.
//
// The framework calls a hook whenever it saves a tensor or needs one back.
// Hooks cut the step into segments, one more than there are hooks:
//
//   segment     0       1        2         3        4         5
//          |--------|--------|---------|--------|---------|---------|
//   hook            0        1         2        3         4
//                 saves a  saves b   needs b  needs a   needs a
//
//   a: saved by hook 0, held elsewhere until segment 1, used in 4 and 5
//
// A segment has a time and the bytes that it needs besides saved tensors
// (weights, gradients, workspace, tensors that other code holds). All that a
// plan does, it does within hooks, so each of its actions names one.
//
// The step becomes a training graph of tasks in a fixed order, one for each
// segment and each saved tensor, and is planned by the search of `best`
// (memory/best/), with transfers as a link in each direction and without
// addresses, which the framework's allocator chooses. The framework made each
// tensor, whatever its recipe: only what computes it again reads and takes what
// the recipe says.
//
// Chen et al., "moDNN", TPDS 2019, sections 3 and 5 (moving and prefetching
// under a budget); Chen et al., "Training deep nets with sublinear memory
// cost", 2016 (computing again).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/training/device_model.h"
#include "base/units.h"

namespace ucudnn {

// The most segments and tensors of a step.
inline constexpr std::size_t kMaxRecordedSegments = 100'000;

struct RecordedSegment {
  Nanoseconds time{0};
  Bytes bytes;  // without saved tensors
  bool backward = false;
};

// How a tensor is computed again.
struct RecordedRecipe {
  Nanoseconds time{0};
  Bytes bytes;  // temporary memory, and what hooks of the backward pass find in
                // use besides saved tensors
  std::vector<std::size_t> reads;  // tensors that are saved earlier, or by the
                                   // same hook and come before this one
};

struct RecordedTensor {
  Bytes bytes;
  std::size_t hook = 0;  // which saves it
  std::size_t held = 0;  // the last segment in which other code holds it
  std::vector<std::size_t> uses;  // segments, rising, all after the hook's and
                                  // not before `held`
  std::optional<RecordedRecipe> recipe = {};
};

struct RecordedStep {
  std::vector<RecordedSegment> segments;
  std::vector<RecordedTensor> tensors;  // by hook
  // Rates and latency of the link; everything else is ignored.
  DeviceModel link;
};

struct RecordedRequest {
  Bytes budget;
  bool offload = true;    // tensors may leave
  bool recompute = true;  // and be computed again
  std::stop_token stop = {};
};

enum class SavedAction {
  kCopy,       // to the host, once all that is enqueued is done
  kFree,       // waits for the copy, then the memory is free
  kFetch,      // takes memory and copies from the host
  kRecompute,  // runs the recipe
  kDrop,       // no use remains before it is computed again, or at all
};
// "copy", "free", "fetch", "recompute", "drop".
std::string_view Name(SavedAction action);

struct HookAction {
  SavedAction action = SavedAction::kCopy;
  std::size_t tensor = 0;
  std::size_t hook = 0;

  friend bool operator==(const HookAction&, const HookAction&) = default;
};

struct RecordedPlan {
  Nanoseconds time{0};
  Nanoseconds ideal_time{0};   // all segments
  Nanoseconds lower_bound{0};  // no plan within the budget takes less
  bool cut_off = false;        // `stop` ended the search: another may be faster
  Bytes peak;                  // the most in any segment
  Bytes plain_peak;            // the same if every tensor stays
  Bytes moved;                 // both ways
  // In the order in which hooks run them. Before a hook returns a tensor or
  // keeps one, everything listed for it happens.
  std::vector<HookAction> actions;
};

// A step of which every tensor stays.
struct PlainStep {
  Nanoseconds time{0};
  Bytes peak;
};

// kInvalidArgument, naming the segment or tensor, its value and what is
// accepted, if the step contradicts itself. Pure.
Result<PlainStep> PlainRecordedStep(const RecordedStep& step);

// Errors of PlainRecordedStep; kFailedPrecondition, naming the
// least budget, if no plan fits. Time: see memory/best/; some seconds for a
// step of a thousand segments. Deterministic unless stopped, which returns the
// best plan so far. Pure.
Result<RecordedPlan> PlanRecordedStep(const RecordedStep& step,
                                      const RecordedRequest& request);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_RECORDED_STEP_H_
