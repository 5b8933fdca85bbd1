#include "device/reference_element.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/reference_conv.h"

namespace ucudnn {
namespace {

std::vector<float> ToFloats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// Groups, strides, dilation, padding, unequal extents, a third dimension.
std::vector<ConvGeometry> Geometries() {
  ConvGeometry plane;
  plane.channels = 6;
  plane.filters = 4;
  plane.groups = 2;
  plane.input = {1, 9, 7};
  plane.filter = {1, 3, 2};
  plane.padding = {0, 2, 1};
  plane.stride = {1, 2, 1};
  plane.dilation = {1, 1, 2};
  ConvGeometry volume = plane;
  volume.spatial_dims = 3;
  volume.input = {5, 4, 6};
  volume.filter = {3, 2, 3};
  volume.padding = {1, 0, 2};
  volume.stride = {2, 1, 3};
  volume.dilation = {1, 2, 1};
  return {plane, volume};
}

TEST(ReferenceElementTest, IsTheElementOfTheWholeConvolution) {
  const BatchSize batch(3);
  for (const ConvGeometry& geometry : Geometries()) {
    for (const Layout layout : kLayouts) {
      for (const ConvOp op : kConvOps) {
        const ConvProblem problem = {op, geometry, Precision::kFp32, layout};
        SCOPED_TRACE(ToString(problem));
        const auto sizes = test::SizesOf(problem, batch);
        const OperandElements elements = ElementsOf(problem, batch);
        EXPECT_EQ(elements.a, sizes.a);
        EXPECT_EQ(elements.b, sizes.b);
        EXPECT_EQ(elements.out, sizes.out);
        const auto a = test::ExactValues(sizes.a, 1);
        const auto b = test::ExactValues(sizes.b, 2);
        const auto whole = test::ReferenceConv(problem, batch, a, b);
        double magnitude = 0;
        for (std::int64_t i = 0; i < sizes.out; ++i) {
          const ReferenceElement element =
              ComputeElement(problem, batch, ToFloats(a), ToFloats(b), i);
          ASSERT_EQ(element.value, whole.out[static_cast<std::size_t>(i)])
              << "element " << i;
          magnitude = std::max(magnitude, element.magnitude);
        }
        EXPECT_EQ(magnitude, whole.scale);
      }
    }
  }
}

TEST(ReferenceElementTest, RepeatsShorterOperands) {
  const ConvProblem problem = {ConvOp::kForward, Geometries()[0],
                               Precision::kFp32, Layout::kNchw};
  const BatchSize batch(2);
  const auto sizes = test::SizesOf(problem, batch);
  const std::vector<float> a = ToFloats(test::ExactValues(7, 1));
  const std::vector<float> b = ToFloats(test::ExactValues(sizes.b, 2));
  std::vector<float> whole;
  for (std::int64_t i = 0; i < sizes.a; ++i) {
    whole.push_back(a[static_cast<std::size_t>(i % 7)]);
  }
  for (std::int64_t i = 0; i < sizes.out; ++i) {
    ASSERT_EQ(ComputeElement(problem, batch, a, b, i).value,
              ComputeElement(problem, batch, whole, b, i).value);
  }
}

}  // namespace
}  // namespace ucudnn
