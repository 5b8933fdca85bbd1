#include <algorithm>
#include <utility>

#include "tests/contract/device_contract.h"

namespace ucudnn::test {
namespace {

ConvGeometry Planar(std::int64_t channels, std::int64_t height,
                    std::int64_t width, std::int64_t filters, std::int64_t r,
                    std::int64_t s) {
  ConvGeometry g;
  g.channels = channels;
  g.input = {1, height, width};
  g.filters = filters;
  g.filter = {1, r, s};
  return g;
}

ConvGeometry Padded(ConvGeometry g, std::int64_t height, std::int64_t width) {
  g.padding = {0, height, width};
  return g;
}

ConvGeometry Strided(ConvGeometry g, std::int64_t height, std::int64_t width) {
  g.stride = {1, height, width};
  return g;
}

ConvGeometry Dilated(ConvGeometry g, std::int64_t height, std::int64_t width) {
  g.dilation = {1, height, width};
  return g;
}

ConvGeometry Grouped(ConvGeometry g, std::int64_t groups) {
  g.groups = groups;
  return g;
}

ConvGeometry Volume(std::int64_t channels, std::int64_t filters) {
  ConvGeometry g;
  g.spatial_dims = 3;
  g.channels = channels;
  g.filters = filters;
  g.input = {5, 7, 6};
  g.filter = {3, 3, 3};
  g.padding = {1, 1, 1};
  return g;
}

}  // namespace

std::vector<ContractShape> StandardShapes() {
  ConvGeometry odd_volume = Grouped(Volume(6, 4), 2);
  odd_volume.stride = {1, 2, 2};
  odd_volume.dilation = {2, 1, 1};
  odd_volume.padding = {2, 0, 1};
  ConvGeometry frames = Padded(Planar(6, 9, 8, 10, 3, 3), 1, 1);
  frames.images = 3;
  return {
      {"plain3x3", Padded(Planar(32, 14, 14, 32, 3, 3), 1, 1), BatchSize(6)},
      {"odd_channels", Padded(Planar(17, 9, 11, 19, 3, 3), 1, 1), BatchSize(4)},
      {"first_layer",
       Strided(Padded(Planar(3, 31, 27, 16, 11, 11), 2, 2), 4, 4),
       BatchSize(2)},
      {"five_by_five", Grouped(Padded(Planar(16, 13, 13, 24, 5, 5), 2, 2), 2),
       BatchSize(3)},
      {"pointwise", Planar(32, 7, 5, 16, 1, 1), BatchSize(3)},
      {"pointwise_strided", Strided(Planar(16, 8, 8, 32, 1, 1), 2, 2),
       BatchSize(2)},
      {"one_pixel", Padded(Planar(5, 1, 1, 7, 3, 3), 1, 1), BatchSize(1)},
      {"one_pixel_one_channel", Planar(1, 1, 1, 1, 1, 1), BatchSize(1)},
      {"one_image", Padded(Planar(16, 12, 10, 16, 3, 3), 1, 1), BatchSize(1)},
      {"many_channels", Padded(Planar(1024, 3, 3, 32, 3, 3), 1, 1),
       BatchSize(2)},
      {"many_filters", Planar(8, 2, 3, 1024, 1, 1), BatchSize(2)},
      {"depthwise", Grouped(Padded(Planar(20, 9, 8, 20, 3, 3), 1, 1), 20),
       BatchSize(3)},
      {"depthwise_multiplied",
       Grouped(Padded(Planar(8, 9, 8, 16, 3, 3), 1, 1), 8), BatchSize(2)},
      {"three_groups", Grouped(Padded(Planar(12, 8, 9, 18, 3, 3), 1, 1), 3),
       BatchSize(2)},
      {"unequal", Strided(Padded(Planar(8, 13, 8, 12, 3, 2), 0, 1), 2, 1),
       BatchSize(5)},
      {"pixels_left_out", Strided(Planar(8, 11, 10, 8, 2, 1), 3, 3),
       BatchSize(2)},
      {"dilated", Dilated(Padded(Planar(8, 13, 15, 12, 3, 3), 2, 3), 2, 3),
       BatchSize(3)},
      {"wide_padding", Padded(Planar(4, 6, 5, 6, 3, 3), 2, 2), BatchSize(2)},
      {"volume", Volume(8, 6), BatchSize(2)},
      {"odd_volume", odd_volume, BatchSize(3)},
      {"frames", frames, BatchSize(2)},
  };
}

std::vector<ConvolutionCase> CasesOf(const DeviceContract& contract) {
  std::vector<ConvolutionCase> cases;
  for (const ContractShape& shape : contract.shapes) {
    for (const ConvOp op : kConvOps) {
      for (const Precision precision : contract.precisions) {
        for (const Layout layout : contract.layouts) {
          cases.push_back({contract, shape.name,
                           ConvProblem{op, shape.geometry, precision, layout},
                           shape.batch});
        }
      }
    }
  }
  return cases;
}

void PrintTo(const DeviceContract& contract, std::ostream* out) {
  *out << contract.name;
}

void PrintTo(const ConvolutionCase& c, std::ostream* out) {
  *out << ToString(c.problem) << ", batch " << c.batch.count();
}

std::string ContractName(const ::testing::TestParamInfo<DeviceContract>& info) {
  return info.param.name;
}

std::string CaseName(const ::testing::TestParamInfo<ConvolutionCase>& info) {
  const ConvProblem& p = info.param.problem;
  return fmt::format("{}_{}_{}_{}_{}", info.param.contract.name,
                     info.param.shape, Name(p.op), Name(p.precision),
                     Name(p.layout));
}

}  // namespace ucudnn::test
