#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_NAME_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_NAME_H_

// The name of an engine of cuDNN's graph API: its global index and the knobs
// that are set on it, in ascending order of type,
//
//   eng18-k2=4-k7=1
//
// Both numbers are cuDNN's own, kept within a minor version, so that a name
// means the same in another process and under another patch release. A knob
// that is not named keeps its default. Pure.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ucudnn::cudnn {

struct Knob {
  std::int64_t type = 0;
  std::int64_t value = 0;
  friend auto operator<=>(const Knob&, const Knob&) = default;
};

struct EngineName {
  std::int64_t engine = 0;
  std::vector<Knob> knobs;  // in ascending order of type, each at most once
  friend auto operator<=>(const EngineName&, const EngineName&) = default;
};

// Whether an algorithm's name looks like an engine's.
bool IsEngineName(std::string_view text);

std::string ToString(const EngineName& name);

// Reads back exactly what ToString writes; kInvalidArgument for anything else.
Result<EngineName> ParseEngineName(std::string_view text);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_NAME_H_
