#include "solver/memory/split/window_split.h"

#include <algorithm>
#include <utility>

namespace ucudnn {
namespace {

std::int64_t DivideDown(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

bool IsEmpty(const CutRange& range) { return range.low > range.high; }
bool IsFixed(const CutRange& range) { return range.low == range.high; }

CutRange Both(const CutRange& a, const CutRange& b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

// Where the output may be cut for the input to be cut in `input`: CutsFor the
// other way round.
CutRange OutputsFor(const Window& window, const CutRange& input) {
  const std::int64_t reach = std::max(window.extent, window.stride);
  // (o - 1) stride - before + reach >= input.low; o stride - before <=
  // input.high
  const std::int64_t low =
      -DivideDown(reach - window.before - input.low, window.stride) + 1;
  return {low, DivideDown(input.high + window.before, window.stride)};
}

// Narrows the ranges until every step agrees with its input's and output's.
std::optional<Cuts::Conflict> Narrow(const std::vector<WindowStep>& steps,
                                     std::vector<CutRange>* ranges) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = steps.size(); i-- > 0;) {
      const WindowStep& step = steps[i];
      CutRange& input = (*ranges)[step.input];
      CutRange& output = (*ranges)[step.output];
      const CutRange needed = {CutsFor(step.window, output.low).low,
                               CutsFor(step.window, output.high).high};
      const CutRange in = Both(input, needed);
      if (IsEmpty(in)) return Cuts::Conflict{i, needed, input};
      const CutRange out = Both(output, OutputsFor(step.window, in));
      if (IsEmpty(out)) return Cuts::Conflict{i, needed, input};
      changed = changed || in != input || out != output;
      input = in;
      output = out;
    }
  }
  return std::nullopt;
}

}  // namespace

CutRange CutsFor(const Window& window, std::int64_t output) {
  const std::int64_t low = output * window.stride - window.before;
  const std::int64_t high =
      (output - 1) * window.stride - window.before + window.extent;
  return {low, std::max(low, high)};
}

Window WindowOfPart(const Window& window, Interval input, Interval output,
                    std::int64_t all_outputs) {
  Window part = window;
  if (output.begin > 0) {
    part.before = input.begin - CutsFor(window, output.begin).low;
  }
  if (output.end < all_outputs) {
    part.after = CutsFor(window, output.end).high - input.end;
  }
  return part;
}

Cuts FindCuts(const std::vector<WindowStep>& steps,
              const std::vector<std::int64_t>& sizes, std::size_t last,
              std::int64_t place) {
  Cuts cuts;
  std::vector<CutRange> ranges;
  ranges.reserve(sizes.size());
  // No part is empty.
  for (const std::int64_t size : sizes) ranges.push_back({1, size - 1});
  ranges[last] = {place, place};
  cuts.conflict = Narrow(steps, &ranges);
  if (cuts.conflict) return cuts;
  const auto choose = [&](std::size_t tensor) {
    const CutRange open = ranges[tensor];
    const std::int64_t middle = (open.low + open.high + 1) / 2;
    for (std::int64_t distance = 0; !IsFixed(ranges[tensor]); ++distance) {
      for (const std::int64_t at : {middle - distance, middle + distance}) {
        std::vector<CutRange> narrowed = ranges;
        narrowed[tensor] = Both(open, {at, at});
        if (IsEmpty(narrowed[tensor]) || Narrow(steps, &narrowed)) continue;
        ranges = std::move(narrowed);
        break;
      }
    }
  };
  // All readers of an output come behind its step.
  for (std::size_t i = steps.size(); i-- > 0;) choose(steps[i].output);
  for (const WindowStep& step : steps) choose(step.input);
  for (const CutRange& range : ranges) cuts.places.push_back(range.low);
  return cuts;
}

}  // namespace ucudnn
