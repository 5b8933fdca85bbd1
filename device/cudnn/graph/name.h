#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_NAME_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_NAME_H_

// How an engine of cuDNN's graph interface is called everywhere: its global
// index and the knobs that are set on it, by rising type,
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
  std::vector<Knob> knobs;  // by rising type, each at most once
  friend auto operator<=>(const EngineName&, const EngineName&) = default;
};

// Whether an algorithm's name is meant as an engine's.
bool IsEngineName(std::string_view text);

std::string ToString(const EngineName& name);

// Reads back exactly what ToString writes; kInvalidArgument for anything else.
Result<EngineName> ParseEngineName(std::string_view text);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_NAME_H_
