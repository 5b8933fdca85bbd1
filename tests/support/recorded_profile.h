#ifndef UCUDNN_TESTS_SUPPORT_RECORDED_PROFILE_H_
#define UCUDNN_TESTS_SUPPORT_RECORDED_PROFILE_H_

// A small hand-written profile and its network.

#include <string>
#include <vector>

#include "base/network.h"
#include "base/profile.h"

namespace ucudnn::test {

inline ConvGeometry SmallGeometry() {
  ConvGeometry g;
  g.channels = 2;
  g.filters = 3;
  g.input = {1, 5, 4};
  g.filter = {1, 3, 3};
  g.padding = {0, 1, 1};
  return g;
}

inline Network SmallNetwork() {
  ConvGeometry wide = SmallGeometry();
  wide.input = {1, 5, 8};
  return {"small",
          {ConvLayer{"first", SmallGeometry(), false, false},
           ConvLayer{"second", wide, false, true},
           ConvLayer{"up", SmallGeometry(), true, true}}};
}

inline MeasuredPoint Point(std::int64_t batch, const std::string& algorithm,
                           Bytes workspace, std::int64_t us,
                           Precision precision = Precision::kFp32) {
  return {BatchSize(batch), Algorithm{algorithm, "FMA", precision},
          workspace,        std::chrono::microseconds(us),
          Nanoseconds(0),   1};
}

inline KernelProfile KernelOf(const std::string& layer, ConvOp op,
                              std::vector<MeasuredPoint> points,
                              Precision precision = Precision::kFp32) {
  return {KernelId{"GPU", "small", layer, op, precision, Layout::kNchw},
          std::move(points)};
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_RECORDED_PROFILE_H_
