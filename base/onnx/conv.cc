#include "base/onnx/conv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/onnx/model.h"
#include "base/onnx/operation.h"
#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::array<std::string_view, 3> kAxisNames = {"depth", "height",
                                                        "width"};

// The last `n` of three extents in the order depth, height, width.
struct Axes {
  int n;
  std::size_t first() const { return std::size_t(3 - n); }
};

Result<Axes> AxesOf(const TensorShape& input) {
  if (input.size() >= 3 && input.size() <= 5) {
    return Axes{static_cast<int>(input.size()) - 2};
  }
  return Fail(Code::kUnimplemented,
              "its input has the shape [{}]; batch, channels and one, two or "
              "three spatial dimensions are accepted",
              fmt::join(input, ", "));
}

// An attribute with one number per axis; `neutral` if it is absent.
Result<Spatial> PerAxis(const onnx::NodeProto& node, std::string_view name,
                        Axes axes, std::int64_t neutral) {
  Spatial values = {neutral, neutral, neutral};
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  if (attribute == nullptr) return values;
  if (attribute->ints_size() != axes.n) {
    return Fail(Code::kInvalidArgument,
                "attribute '{}' has {} numbers; {} are expected", name,
                attribute->ints_size(), axes.n);
  }
  for (int i = 0; i < axes.n; ++i) {
    values[axes.first() + std::size_t(i)] = attribute->ints(i);
  }
  return values;
}

Spatial Extents(const TensorShape& shape, Axes axes) {
  Spatial extents = {1, 1, 1};
  std::copy(shape.begin() + 2, shape.end(),
            extents.begin() + std::ptrdiff_t(axes.first()));
  return extents;
}

// How much is padded on each side.
struct Sides {
  Spatial before = {0, 0, 0};
  Spatial after = {0, 0, 0};
};

// Splits `total` padding of an axis over both sides: before and after.
std::pair<std::int64_t, std::int64_t> SplitPadding(std::int64_t total,
                                                   std::string_view auto_pad) {
  const std::int64_t less = total / 2;
  const std::int64_t more = total - less;
  return auto_pad == "SAME_LOWER" ? std::pair(more, less)
                                  : std::pair(less, more);
}

Sides Halved(const Spatial& total, std::string_view auto_pad) {
  Sides sides;
  for (std::size_t i = 0; i < 3; ++i) {
    std::tie(sides.before[i], sides.after[i]) =
        SplitPadding(total[i], auto_pad);
  }
  return sides;
}

Result<Sides> ExplicitPadding(const onnx::NodeProto& node, Axes axes) {
  Sides sides;
  const onnx::AttributeProto* pads = FindAttribute(node, "pads");
  if (pads == nullptr) return sides;
  if (pads->ints_size() != 2 * axes.n) {
    return Fail(Code::kInvalidArgument,
                "attribute 'pads' has {} numbers; {} are expected",
                pads->ints_size(), 2 * axes.n);
  }
  for (int i = 0; i < axes.n; ++i) {
    const std::size_t axis = axes.first() + std::size_t(i);
    sides.before[axis] = pads->ints(i);
    sides.after[axis] = pads->ints(i + axes.n);
  }
  return sides;
}

// Refuses extents that products of extents and attributes could not hold.
Status CheckExtents(std::string_view what, const Spatial& extents) {
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  for (std::size_t i = 0; i < 3; ++i) {
    if (extents[i] >= 1 && extents[i] <= kMax) continue;
    return Fail(Code::kInvalidArgument, "its {} {} is {}; 1 to {} is accepted",
                what, kAxisNames[i], extents[i], kMax);
  }
  return {};
}

// The mode of `auto_pad`; empty if the padding is explicit.
Result<std::string> AutoPad(const onnx::NodeProto& node) {
  const onnx::AttributeProto* attribute = FindAttribute(node, "auto_pad");
  if (attribute == nullptr || attribute->s().empty() ||
      attribute->s() == "NOTSET") {
    return std::string();
  }
  for (const char* known : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    if (attribute->s() == known) return attribute->s();
  }
  return Fail(Code::kInvalidArgument,
              "attribute 'auto_pad' is '{}'; NOTSET, SAME_UPPER, SAME_LOWER "
              "or VALID is accepted",
              Excerpt(attribute->s()));
}

// What "SAME" pads along an axis in all: the output has an element for each
// stride of the input.
std::int64_t SamePadding(std::int64_t input, std::int64_t extent,
                         std::int64_t stride) {
  const std::int64_t outputs = (input - 1) / stride + 1;
  return std::max<std::int64_t>((outputs - 1) * stride + extent - input, 0);
}

// A plain convolution's padding; `g` has everything else.
Result<Sides> Padding(const onnx::NodeProto& node, Axes axes,
                      const ConvGeometry& g) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string auto_pad, AutoPad(node));
  if (auto_pad.empty()) return ExplicitPadding(node, axes);
  if (auto_pad == "VALID") return Sides();
  Spatial total = {0, 0, 0};
  for (std::size_t i = axes.first(); i < 3; ++i) {
    const std::int64_t extent = g.dilation[i] * (g.filter[i] - 1) + 1;
    total[i] = SamePadding(g.input[i], extent, g.stride[i]);
  }
  return Halved(total, auto_pad);
}

// A transposed convolution's padding; `g` is its adjoint without padding and
// input, `small` the spatial extents of the node's input and `natural` those of
// its output without padding:
//   natural = stride (small - 1) + output_padding + dilation (filter - 1) + 1
Result<Sides> TransposedPadding(const onnx::NodeProto& node, Axes axes,
                                const ConvGeometry& g, const Spatial& small,
                                const Spatial& natural) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string auto_pad, AutoPad(node));
  const bool given = FindAttribute(node, "output_shape") != nullptr;
  if (auto_pad == "VALID" && !given) return Sides();
  if (auto_pad.empty() && !given) return ExplicitPadding(node, axes);
  UCUDNN_ASSIGN_OR_RETURN(const Spatial wanted,
                          PerAxis(node, "output_shape", axes, 1));
  Spatial total = {0, 0, 0};
  for (std::size_t i = axes.first(); i < 3; ++i) {
    const std::int64_t output = given ? wanted[i] : small[i] * g.stride[i];
    total[i] = natural[i] - output;
  }
  return Halved(total, auto_pad);
}

// Leaves the padding that one side has more than the other to the input.
void MakeEven(const Sides& sides, PaddedConvolution* padded) {
  ConvGeometry& g = padded->convolution.geometry;
  for (std::size_t i = 0; i < 3; ++i) {
    g.padding[i] = std::min(sides.before[i], sides.after[i]);
    padded->before[i] = sides.before[i] - g.padding[i];
    padded->after[i] = sides.after[i] - g.padding[i];
    g.input[i] += padded->before[i] + padded->after[i];
  }
}

// Sets the geometry of a transposed convolution and its output's extents, from
// those of its input.
Result<Spatial> SetTransposed(const onnx::NodeProto& node, Axes axes,
                              const Spatial& small, PaddedConvolution* padded) {
  ConvGeometry& g = padded->convolution.geometry;
  UCUDNN_ASSIGN_OR_RETURN(const Spatial extra,
                          PerAxis(node, "output_padding", axes, 0));
  Spatial natural;
  for (std::size_t i = 0; i < 3; ++i) {
    natural[i] = g.stride[i] * (small[i] - 1) + extra[i] +
                 g.dilation[i] * (g.filter[i] - 1) + 1;
  }
  UCUDNN_ASSIGN_OR_RETURN(Sides sides,
                          TransposedPadding(node, axes, g, small, natural));
  Spatial output;
  for (std::size_t i = 0; i < 3; ++i) {
    output[i] = natural[i] - sides.before[i] - sides.after[i];
    // An output larger than the natural one gets zeros at its end.
    if (sides.before[i] + sides.after[i] < 0 &&
        FindAttribute(node, "pads") == nullptr) {
      sides.before[i] = sides.after[i] = 0;
    }
  }
  g.input = output;
  MakeEven(sides, padded);
  return output;
}

}  // namespace

bool IsConvolution(const onnx::NodeProto& node) {
  return IsStandard(node) &&
         (node.op_type() == "Conv" || node.op_type() == "ConvTranspose");
}

bool IsPooling(const onnx::NodeProto& node) {
  return IsStandard(node) &&
         (node.op_type() == "MaxPool" || node.op_type() == "AveragePool");
}

Result<PaddedConvolution> ConvolutionOf(const onnx::NodeProto& node,
                                        const TensorShape& input,
                                        const TensorShape& filter) {
  UCUDNN_ASSIGN_OR_RETURN(const Axes axes, AxesOf(input));
  if (filter.size() != input.size()) {
    return Fail(Code::kInvalidArgument,
                "its input and filter have {} and {} dimensions; equal numbers "
                "are expected",
                input.size(), filter.size());
  }
  PaddedConvolution padded;
  NodeConvolution& conv = padded.convolution;
  conv.transposed = node.op_type() == "ConvTranspose";
  ConvGeometry& g = conv.geometry;
  g.spatial_dims = std::max(axes.n, 2);
  g.groups = IntegerAttribute(node, "group", 1);
  if (g.groups < 1) {
    return Fail(Code::kInvalidArgument,
                "attribute 'group' is {}; a number from 1 on is accepted",
                g.groups);
  }
  g.filter = Extents(filter, axes);
  const Spatial read = Extents(input, axes);
  UCUDNN_RETURN_IF_ERROR(CheckExtents("filter", g.filter));
  UCUDNN_RETURN_IF_ERROR(CheckExtents("input", read));
  UCUDNN_ASSIGN_OR_RETURN(g.stride, PerAxis(node, "strides", axes, 1));
  UCUDNN_ASSIGN_OR_RETURN(g.dilation, PerAxis(node, "dilations", axes, 1));
  if (const auto* attribute = FindAttribute(node, "kernel_shape")) {
    UCUDNN_ASSIGN_OR_RETURN(const Spatial kernel,
                            PerAxis(node, "kernel_shape", axes, 1));
    if (kernel != g.filter) {
      return Fail(Code::kInvalidArgument,
                  "attribute 'kernel_shape' is [{}], but its filter has the "
                  "shape [{}]",
                  fmt::join(attribute->ints(), ", "), fmt::join(filter, ", "));
    }
  }
  // The filter's shape is [K, C / groups, ...] of the stored convolution.
  g.filters = filter[0];
  const auto channels =
      CheckedProduct(TensorShape{filter[1]}, g.groups, kMaxTensorBytes);
  if (!channels || input[1] != (conv.transposed ? g.filters : *channels)) {
    return Fail(Code::kInvalidArgument,
                "its filter has the shape [{}], which does not match the input "
                "[{}] with {} groups",
                fmt::join(filter, ", "), fmt::join(input, ", "), g.groups);
  }
  g.channels = *channels;
  Spatial output;
  if (conv.transposed) {
    UCUDNN_ASSIGN_OR_RETURN(output, SetTransposed(node, axes, read, &padded));
  } else {
    g.input = read;
    UCUDNN_ASSIGN_OR_RETURN(const Sides sides, Padding(node, axes, g));
    MakeEven(sides, &padded);
  }
  UCUDNN_RETURN_IF_ERROR(Validate(g));
  if (!conv.transposed) {
    output = g.output();
  } else if (g.output() != read) {
    return Fail(Code::kInvalidArgument,
                "its output of {} does not match its input [{}]; an output "
                "padding less than the stride is accepted",
                fmt::join(output, " x "), fmt::join(input, ", "));
  }
  padded.output = {input[0], conv.transposed ? g.channels : g.filters};
  padded.output.insert(padded.output.end(),
                       output.begin() + std::ptrdiff_t(axes.first()),
                       output.end());
  return padded;
}

Result<PooledShape> PoolingOf(const onnx::NodeProto& node,
                              const TensorShape& input) {
  UCUDNN_ASSIGN_OR_RETURN(const Axes axes, AxesOf(input));
  const Spatial in = Extents(input, axes);
  UCUDNN_RETURN_IF_ERROR(CheckExtents("input", in));
  if (FindAttribute(node, "kernel_shape") == nullptr) {
    return Fail(Code::kInvalidArgument, "it lacks 'kernel_shape'");
  }
  UCUDNN_ASSIGN_OR_RETURN(const Spatial kernel,
                          PerAxis(node, "kernel_shape", axes, 1));
  UCUDNN_ASSIGN_OR_RETURN(const Spatial stride,
                          PerAxis(node, "strides", axes, 1));
  UCUDNN_ASSIGN_OR_RETURN(const Spatial dilation,
                          PerAxis(node, "dilations", axes, 1));
  UCUDNN_ASSIGN_OR_RETURN(const std::string auto_pad, AutoPad(node));
  UCUDNN_ASSIGN_OR_RETURN(const Sides sides, ExplicitPadding(node, axes));
  const bool up = IntegerAttribute(node, "ceil_mode", 0) != 0;
  PooledShape pooled{input, std::array<Window, 3>()};
  bool plain = dilation == Spatial{1, 1, 1};
  for (std::size_t i = axes.first(); i < 3; ++i) {
    std::int64_t& out = pooled.output[i - axes.first() + 2];
    Window& window = (*pooled.windows)[i];
    window.extent = kernel[i];
    window.stride = stride[i];
    if (auto_pad.starts_with("SAME")) {
      std::tie(window.before, window.after) =
          SplitPadding(SamePadding(in[i], kernel[i], stride[i]), auto_pad);
      out = (in[i] - 1) / stride[i] + 1;
    } else {
      if (auto_pad.empty()) {
        window.before = sides.before[i];
        window.after = sides.after[i];
      }
      const std::int64_t steps = in[i] + window.before + window.after -
                                 dilation[i] * (kernel[i] - 1) - 1;
      if (steps < 0) {
        return Fail(Code::kInvalidArgument,
                    "its window of {} does not fit into its input [{}]",
                    fmt::join(kernel, " x "), fmt::join(input, ", "));
      }
      out = steps / stride[i] + 1;
      // A window that rounding up adds starts before the end of the input.
      if (up && steps % stride[i] != 0 &&
          out * stride[i] < in[i] + window.before) {
        ++out;
      }
    }
    plain = plain && window.before >= 0 && window.after >= 0;
    if (up) {
      window.after =
          std::max(window.after, (out - 1) * window.stride + window.extent -
                                     in[i] - window.before);
    }
    plain = plain && window.OutputOf(in[i]) == out;
  }
  if (!plain) pooled.windows.reset();
  return pooled;
}

Divisor DivisorOf(const onnx::NodeProto& node,
                  const std::array<Window, 3>& windows) {
  if (node.op_type() != "AveragePool") return Divisor::kWindow;
  const bool padded =
      std::any_of(windows.begin(), windows.end(),
                  [](const Window& w) { return w.before > 0 || w.after > 0; });
  if (!padded) return Divisor::kWindow;
  if (IntegerAttribute(node, "count_include_pad", 0) == 0) {
    return Divisor::kInside;
  }
  if (IntegerAttribute(node, "ceil_mode", 0) == 0) return Divisor::kWindow;
  // The padding after that the model asks for, per axis.
  const onnx::AttributeProto* pads = FindAttribute(node, "pads");
  const int axes = pads == nullptr ? 0 : pads->ints_size() / 2;
  for (int i = 0; i < 3; ++i) {
    const int axis = i - (3 - axes);
    const std::int64_t asked = axis < 0 ? 0 : pads->ints(axis + axes);
    if (windows[static_cast<std::size_t>(i)].after > asked) {
      return Divisor::kPadded;
    }
  }
  return Divisor::kWindow;
}

}  // namespace ucudnn
