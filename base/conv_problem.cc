#include "base/conv_problem.h"

#include <limits>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/text.h"

namespace ucudnn {
namespace {

// Sets `*product` to a * b, both at least 0; false if it exceeds 63 bits.
bool Multiply(std::int64_t a, std::int64_t b, std::int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

constexpr std::array<std::string_view, 3> kAxes = {"depth", "height", "width"};

std::int64_t Product(const Spatial& extents) {
  return extents[0] * extents[1] * extents[2];
}

// The last `dims` of three extents, as "d8h56w56" or "27x27".
std::string Extents(const Spatial& values, int dims, std::string_view names) {
  std::string text;
  for (int i = 3 - dims; i < 3; ++i) {
    fmt::format_to(std::back_inserter(text), "{}{}", names[std::size_t(i)],
                   values[std::size_t(i)]);
  }
  return text;
}

std::string Joined(const Spatial& values, int dims) {
  std::string text;
  for (int i = 3 - dims; i < 3; ++i) {
    if (i > 3 - dims) text += 'x';
    fmt::format_to(std::back_inserter(text), "{}", values[std::size_t(i)]);
  }
  return text;
}

}  // namespace

std::string_view Name(ConvOp op) {
  switch (op) {
    case ConvOp::kForward:
      return "forward";
    case ConvOp::kBackwardData:
      return "backward_data";
    case ConvOp::kBackwardFilter:
      return "backward_filter";
  }
  return "";
}

std::string_view Name(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "FP32";
    case Precision::kTf32:
      return "TF32";
    case Precision::kTrueHalf:
      return "TRUE_HALF";
    case Precision::kPseudoHalf:
      return "PSEUDO_HALF";
    case Precision::kBf16:
      return "BF16";
  }
  return "";
}

std::string_view Name(Layout layout) {
  return layout == Layout::kNchw ? "NCHW" : "NHWC";
}

Result<ConvOp> ParseConvOp(std::string_view text) {
  return ParseName(text, kConvOps, "an operation");
}

Result<Precision> ParsePrecision(std::string_view text) {
  return ParseName(text, kPrecisions, "a precision");
}

Result<Layout> ParseLayout(std::string_view text) {
  return ParseName(text, kLayouts, "a layout");
}

bool Admits(Precision asked, Precision offered) {
  return asked == offered ||
         (asked == Precision::kTrueHalf && offered == Precision::kPseudoHalf) ||
         (asked == Precision::kTf32 && offered == Precision::kFp32);
}

std::int64_t ElementBytes(Precision precision) {
  return precision == Precision::kFp32 || precision == Precision::kTf32 ? 4 : 2;
}

Spatial ConvGeometry::output() const {
  Spatial out;
  for (std::size_t i = 0; i < 3; ++i) {
    out[i] = (input[i] + 2 * padding[i] - dilation[i] * (filter[i] - 1) - 1) /
                 stride[i] +
             1;
  }
  return out;
}

std::int64_t ConvGeometry::input_elements() const {
  return images * channels * Product(input);
}

std::int64_t ConvGeometry::output_elements() const {
  return images * filters * Product(output());
}

std::int64_t ConvGeometry::filter_elements() const {
  return filters * (channels / groups) * Product(filter);
}

std::int64_t ConvGeometry::multiply_adds() const {
  return output_elements() * (channels / groups) * Product(filter);
}

ConvWork Unfold(const ConvProblem& problem, BatchSize batch) {
  ConvWork work = {problem, BatchSize(batch.count() * problem.geometry.images)};
  work.problem.geometry.images = 1;
  return work;
}

Status Validate(const ConvGeometry& g) {
  if (g.spatial_dims != 2 && g.spatial_dims != 3) {
    return Fail(Code::kInvalidArgument,
                "{} spatial dimensions; 2 or 3 are accepted", g.spatial_dims);
  }
  // Keeps every sum and product below in range.
  constexpr std::int64_t kMaxExtent = std::int64_t{1} << 31;
  UCUDNN_RETURN_IF_ERROR(InRange("images", g.images, 1, kMaxBatchSize.count()));
  UCUDNN_RETURN_IF_ERROR(InRange("C", g.channels, 1, kMaxExtent));
  UCUDNN_RETURN_IF_ERROR(InRange("K", g.filters, 1, kMaxExtent));
  UCUDNN_RETURN_IF_ERROR(InRange("groups", g.groups, 1, kMaxExtent));
  if (g.channels % g.groups != 0 || g.filters % g.groups != 0) {
    return Fail(Code::kInvalidArgument,
                "groups is {}, which does not divide C = {} and K = {}",
                g.groups, g.channels, g.filters);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string axis(kAxes[i]);
    UCUDNN_RETURN_IF_ERROR(InRange("input " + axis, g.input[i], 1, kMaxExtent));
    UCUDNN_RETURN_IF_ERROR(
        InRange("filter " + axis, g.filter[i], 1, kMaxExtent));
    UCUDNN_RETURN_IF_ERROR(
        InRange("padding " + axis, g.padding[i], 0, kMaxExtent));
    UCUDNN_RETURN_IF_ERROR(
        InRange("stride " + axis, g.stride[i], 1, kMaxExtent));
    UCUDNN_RETURN_IF_ERROR(
        InRange("dilation " + axis, g.dilation[i], 1, kMaxExtent));
    const std::int64_t padded = g.input[i] + 2 * g.padding[i];
    const std::int64_t dilated = g.dilation[i] * (g.filter[i] - 1) + 1;
    if (dilated > padded) {
      return Fail(Code::kInvalidArgument,
                  "the filter's {} is {} with dilation, more than the padded "
                  "input's {}",
                  axis, dilated, padded);
    }
  }
  if (g.spatial_dims == 2 &&
      (g.input[0] != 1 || g.filter[0] != 1 || g.padding[0] != 0 ||
       g.stride[0] != 1 || g.dilation[0] != 1)) {
    return Fail(Code::kInvalidArgument,
                "a depth is given for two spatial dimensions");
  }
  const Spatial out = g.output();
  const std::int64_t batch_bytes = kMaxBatchSize.count() * 8 * g.images;
  const auto countable = [&](std::string_view what, std::int64_t outer,
                             const Spatial& extents,
                             std::int64_t factor) -> Status {
    std::int64_t n = factor;
    bool fits = Multiply(n, outer, &n);
    for (const std::int64_t extent : extents) {
      fits = fits && Multiply(n, extent, &n);
    }
    if (!fits) {
      return Fail(Code::kInvalidArgument, "{} is too large", what);
    }
    return {};
  };
  UCUDNN_RETURN_IF_ERROR(
      countable("the input", g.channels, g.input, batch_bytes));
  UCUDNN_RETURN_IF_ERROR(countable("the output", g.filters, out, batch_bytes));
  std::int64_t filters = 0;
  if (!Multiply(g.filters, g.channels / g.groups, &filters)) {
    filters = std::numeric_limits<std::int64_t>::max();
  }
  UCUDNN_RETURN_IF_ERROR(countable("the filter", filters, g.filter, 8));
  return {};
}

std::string ToString(const ConvProblem& p) {
  const ConvGeometry& g = p.geometry;
  const int dims = g.spatial_dims;
  const std::string images = g.images == 1 ? "" : fmt::format("-n{}", g.images);
  return fmt::format("{}{}-c{}-{}-k{}-{}-pad{}-str{}-dil{}-g{}-{}-{}",
                     Name(p.op), images, g.channels,
                     Extents(g.input, dims, "dhw"), g.filters,
                     Extents(g.filter, dims, "trs"), Joined(g.padding, dims),
                     Joined(g.stride, dims), Joined(g.dilation, dims), g.groups,
                     Name(p.precision), Name(p.layout));
}

namespace {

// Reads the parts of a canonical text one after the other.
class PartReader {
 public:
  explicit PartReader(std::string_view text) : rest_(text) {}

  std::string_view Next() {
    if (done_) return {};
    const std::size_t dash = rest_.find('-');
    const std::string_view part = rest_.substr(0, dash);
    done_ = dash == std::string_view::npos;
    rest_ = done_ ? std::string_view() : rest_.substr(dash + 1);
    return part;
  }
  bool done() const { return done_; }

 private:
  std::string_view rest_;
  bool done_ = false;
};

constexpr std::int64_t kMaxNumber = std::int64_t{1} << 31;

Result<std::int64_t> ReadNumber(std::string_view part,
                                std::string_view prefix) {
  if (part.substr(0, prefix.size()) != prefix) {
    return Fail(Code::kInvalidArgument, "'{}' should start with '{}'",
                Excerpt(part, 32), prefix);
  }
  return ParseInteger(part.substr(prefix.size()), 0, kMaxNumber);
}

// "d8h56w56": the next name in `names` ends each number.
Result<Spatial> ReadExtents(std::string_view part, std::string_view names,
                            Spatial values, int dims) {
  std::string_view rest = part;
  for (std::size_t i = std::size_t(3 - dims); i < 3; ++i) {
    if (rest.empty() || rest.front() != names[i]) {
      return Fail(Code::kInvalidArgument, "'{}' should name {} in this order",
                  Excerpt(part, 32), names.substr(std::size_t(3 - dims)));
    }
    rest.remove_prefix(1);
    const std::size_t digits = rest.find_first_not_of("0123456789");
    UCUDNN_ASSIGN_OR_RETURN(
        values[i], ParseInteger(rest.substr(0, digits), 0, kMaxNumber));
    rest = digits == std::string_view::npos ? "" : rest.substr(digits);
  }
  if (!rest.empty()) {
    return Fail(Code::kInvalidArgument, "'{}' has text after its last number",
                Excerpt(part, 32));
  }
  return values;
}

// "pad2x2"
Result<Spatial> ReadJoined(std::string_view part, std::string_view prefix,
                           Spatial values, int dims) {
  if (part.substr(0, prefix.size()) != prefix) {
    return Fail(Code::kInvalidArgument, "'{}' should start with '{}'",
                Excerpt(part, 32), prefix);
  }
  std::string_view rest = part.substr(prefix.size());
  for (std::size_t i = std::size_t(3 - dims); i < 3; ++i) {
    const std::size_t x = i == 2 ? std::string_view::npos : rest.find('x');
    if (i < 2 && x == std::string_view::npos) {
      return Fail(Code::kInvalidArgument, "'{}' should hold {} numbers",
                  Excerpt(part, 32), dims);
    }
    UCUDNN_ASSIGN_OR_RETURN(values[i],
                            ParseInteger(rest.substr(0, x), 0, kMaxNumber));
    rest = i == 2 ? "" : rest.substr(x + 1);
  }
  return values;
}

Result<ConvProblem> ReadParts(std::string_view text) {
  PartReader parts(text);
  ConvProblem p;
  ConvGeometry& g = p.geometry;
  UCUDNN_ASSIGN_OR_RETURN(p.op, ParseConvOp(parts.Next()));
  std::string_view part = parts.Next();
  if (part.starts_with('n')) {
    UCUDNN_ASSIGN_OR_RETURN(g.images, ReadNumber(part, "n"));
    part = parts.Next();
  }
  UCUDNN_ASSIGN_OR_RETURN(g.channels, ReadNumber(part, "c"));
  const std::string_view input = parts.Next();
  g.spatial_dims = !input.empty() && input.front() == 'd' ? 3 : 2;
  const int dims = g.spatial_dims;
  UCUDNN_ASSIGN_OR_RETURN(g.input, ReadExtents(input, "dhw", g.input, dims));
  UCUDNN_ASSIGN_OR_RETURN(g.filters, ReadNumber(parts.Next(), "k"));
  UCUDNN_ASSIGN_OR_RETURN(g.filter,
                          ReadExtents(parts.Next(), "trs", g.filter, dims));
  UCUDNN_ASSIGN_OR_RETURN(g.padding,
                          ReadJoined(parts.Next(), "pad", g.padding, dims));
  UCUDNN_ASSIGN_OR_RETURN(g.stride,
                          ReadJoined(parts.Next(), "str", g.stride, dims));
  UCUDNN_ASSIGN_OR_RETURN(g.dilation,
                          ReadJoined(parts.Next(), "dil", g.dilation, dims));
  UCUDNN_ASSIGN_OR_RETURN(g.groups, ReadNumber(parts.Next(), "g"));
  UCUDNN_ASSIGN_OR_RETURN(p.precision, ParsePrecision(parts.Next()));
  UCUDNN_ASSIGN_OR_RETURN(p.layout, ParseLayout(parts.Next()));
  if (!parts.done()) {
    return Fail(Code::kInvalidArgument, "there is text after the layout");
  }
  UCUDNN_RETURN_IF_ERROR(Validate(g));
  return p;
}

}  // namespace

Result<ConvProblem> ParseConvProblem(std::string_view text) {
  Result<ConvProblem> problem = ReadParts(text);
  if (!problem) {
    return Within(fmt::format("convolution problem '{}'", Excerpt(text, 200)),
                  std::move(problem).error());
  }
  // "007" and the like parse, but one problem must have one text.
  if (ToString(*problem) != text) {
    return Fail(Code::kInvalidArgument,
                "convolution problem '{}' is not in canonical form; write '{}'",
                Excerpt(text, 200), ToString(*problem));
  }
  return problem;
}

}  // namespace ucudnn
