#include "device/cudnn/operators/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <type_traits>
#include <utility>

namespace ucudnn::cudnn {
namespace {

// PTX's type of a parameter.
template <class P>
constexpr std::string_view TypeOf() {
  if constexpr (std::is_pointer_v<P>) return "u64";
  if constexpr (std::is_same_v<P, float>) return "f32";
  if constexpr (std::is_same_v<P, double>) return "f64";
  return "u32";
}

struct Entry {
  std::string_view name;
  std::string text;
};

// Replaces "load.f32 value, tensor, i;" and "store.f32 value, tensor, i;", and
// the same of u32 and f64, by instructions that leave the element's address in
// the register address.
std::string WithElements(std::string text) {
  for (const auto& [bits, bytes] : {std::pair("32", "4"), {"64", "8"}}) {
    const std::string element =
        fmt::format(R"(\.(\w{}) (\w+), (\w+), (\w+);)", bits);
    const std::string address =
        fmt::format("mad.wide.u32 address, $4, {}, $3;\n  ", bytes);
    text = std::regex_replace(text, std::regex("load" + element),
                              address + "ld.global.$1 $2, [address];");
    text = std::regex_replace(text, std::regex("store" + element),
                              address + "st.global.$1 [address], $2;");
  }
  return text;
}

// What makes the kernel's parameters registers of the names in `parameters`,
// pointers as global addresses, and defines the registers thread, block, i (the
// thread's number among all) and address.
template <class... P>
std::string Head(const Kernel<P...>& kernel, std::string_view parameters) {
  const std::string_view types[] = {TypeOf<P>()...};
  std::string declared;
  std::string loaded;
  for (const std::string_view type : types) {
    const auto end = std::min(parameters.find(' '), parameters.size());
    const std::string_view name = parameters.substr(0, end);
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
    declared += fmt::format("{}\n  .param .{} p_{}",
                            declared.empty() ? "" : ",", type, name);
    loaded += fmt::format("  .reg .{0} {1};\n  ld.param.{0} {1}, [p_{1}];\n",
                          type, name);
    if (type == "u64") {
      loaded += fmt::format("  cvta.to.global.u64 {0}, {0};\n", name);
    }
  }
  return fmt::format(R"(
.visible .entry {}({})
{{
  .reg .pred past;
  .reg .u32 thread, block, i;
  .reg .u64 address;
  mov.u32 block, %ctaid.x;
  mov.u32 i, %ntid.x;
  mov.u32 thread, %tid.x;
  mad.lo.u32 i, block, i, thread;
{})",
                     kernel.name, declared, loaded);
}

// A kernel whose threads from `last` on, one of its parameters, do nothing.
template <class... P>
Entry Elements(const Kernel<P...>& kernel, std::string_view parameters,
               std::string_view last, std::string_view body) {
  return {kernel.name,
          fmt::format("{}  setp.ge.u32 past, i, {};\n  @past bra DONE;\n{}"
                      "DONE:\n  ret;\n}}\n",
                      Head(kernel, parameters), last, body)};
}

// A kernel whose blocks each visit the elements of a channel, pixel by pixel of
// image by image, and add up two sums, a and b, in an order that depends on the
// shape alone. `each` finds the address of x's element in `at`, its distance
// from the tensor's begin in `offset`; `first` is what one thread does with the
// sums of all.
template <class... P>
Entry ChannelSums(const Kernel<P...>& kernel, std::string_view parameters,
                  std::string_view before, std::string_view each,
                  std::string_view first) {
  constexpr std::string_view kBody = R"(
  .reg .u32 k, image, pixel, plane;
  .reg .u64 offset, at, wide;
  .reg .f64 a, b, other;
  .shared .f64 sums_a[256];
  .shared .f64 sums_b[256];
  .reg .u32 mine, half, theirs;
  mov.f64 a, 0d0000000000000000;
  mov.f64 b, 0d0000000000000000;
{}
  mov.u32 k, thread;
NEXT:
  setp.ge.u32 past, k, count;
  @past bra ADDED;
  div.u32 image, k, pixels;
  mul.lo.u32 pixel, image, pixels;
  sub.u32 pixel, k, pixel;
  mad.lo.u32 plane, image, channels, block;
  mul.wide.u32 offset, plane, pixels;
  cvt.u64.u32 wide, pixel;
  add.u64 offset, offset, wide;
  shl.b64 offset, offset, 2;
  add.u64 at, x, offset;
{}
  add.u32 k, k, 256;
  bra NEXT;
ADDED:
  shl.b32 mine, thread, 3;
  mov.u32 theirs, sums_a;
  add.u32 theirs, theirs, mine;
  st.shared.f64 [theirs], a;
  mov.u32 k, sums_b;
  add.u32 mine, k, mine;
  st.shared.f64 [mine], b;
  mov.u32 half, 128;
HALVE:
  bar.sync 0;
  setp.ge.u32 past, thread, half;
  @past bra HALVED;
  shl.b32 k, half, 3;
  add.u32 k, theirs, k;
  ld.shared.f64 other, [k];
  add.f64 a, a, other;
  st.shared.f64 [theirs], a;
  shl.b32 k, half, 3;
  add.u32 k, mine, k;
  ld.shared.f64 other, [k];
  add.f64 b, b, other;
  st.shared.f64 [mine], b;
HALVED:
  shr.u32 half, half, 1;
  setp.ne.u32 past, half, 0;
  @past bra HALVE;
  setp.ne.u32 past, thread, 0;
  @past bra DONE;
{}
DONE:
  ret;
}}
)";
  return {kernel.name,
          Head(kernel, parameters) +
              fmt::format(fmt::runtime(kBody), before, each, first)};
}

// The channel of element i, and the addresses of a channel's two values in
// `statistics`.
constexpr std::string_view kChannelOfElement = R"(
  .reg .u32 channel;
  div.u32 channel, i, pixels;
  rem.u32 channel, channel, channels;
)";
constexpr std::string_view kStatisticsOfChannel = R"(
  .reg .u32 second;
  .reg .f32 mean, inverse;
  add.u32 second, channel, channels;
  load.f32 mean, statistics, channel;
  load.f32 inverse, statistics, second;
)";

Entry SubtractLabels() {
  return Elements(kSubtractLabels,
                  "gradients labels probabilities count pixels channels scale "
                  "inverse",
                  "count", R"(
  .reg .u32 label, image, pixel, plane;
  .reg .u64 element, wide;
  .reg .f32 value, result;
  load.u32 label, labels, i;
  div.u32 image, i, pixels;
  rem.u32 pixel, i, pixels;
  // (image * channels + label) * pixels + pixel
  mad.lo.u32 plane, image, channels, label;
  mul.wide.u32 element, plane, pixels;
  cvt.u64.u32 wide, pixel;
  add.u64 element, element, wide;
  shl.b64 element, element, 2;
  add.u64 element, element, gradients;
  ld.global.f32 value, [element];
  mul.f32 result, value, inverse;
  store.f32 result, probabilities, i;
  sub.f32 result, value, scale;
  st.global.f32 [element], result;
)");
}

// What Dropout and its backward pass do once `keeps` is known.
constexpr std::string_view kScaleKept = R"(
  load.f32 value, from, i;
  mul.f32 value, value, factor;
  selp.f32 value, value, 0f00000000, keeps;
  store.f32 value, to, i;
)";
constexpr std::string_view kDropoutRegisters = R"(
  .reg .pred keeps;
  .reg .u16 kept;
  .reg .f32 value;
  cvt.u64.u32 address, i;
  add.u64 address, address, mask;
)";

Entry Dropout() {
  return Elements(kDropout, "from to mask count seed threshold factor", "count",
                  fmt::format(R"({}
  .reg .b32 hash, shifted;
  // DropoutHash
  mad.lo.u32 hash, i, 0x9E3779B1, seed;
  shr.u32 shifted, hash, 16;
  xor.b32 hash, hash, shifted;
  mul.lo.u32 hash, hash, 0x85EBCA6B;
  shr.u32 shifted, hash, 13;
  xor.b32 hash, hash, shifted;
  mul.lo.u32 hash, hash, 0xC2B2AE35;
  shr.u32 shifted, hash, 16;
  xor.b32 hash, hash, shifted;
  setp.ge.u32 keeps, hash, threshold;
  selp.u16 kept, 1, 0, keeps;
  st.global.u8 [address], kept;
{})",
                              kDropoutRegisters, kScaleKept));
}

Entry DropoutBackward() {
  return Elements(kDropoutBackward, "from to mask count factor", "count",
                  fmt::format(R"({}
  ld.global.u8 kept, [address];
  setp.ne.u16 keeps, kept, 0;
{})",
                              kDropoutRegisters, kScaleKept));
}

Entry Update() {
  return Elements(kUpdate, "gradients velocities weights count rate momentum",
                  "count", R"(
  .reg .f32 step, old, down;
  load.f32 step, gradients, i;
  load.f32 old, velocities, i;
  fma.rn.f32 step, momentum, old, step;
  st.global.f32 [address], step;
  load.f32 old, weights, i;
  neg.f32 down, rate;
  fma.rn.f32 old, down, step, old;
  st.global.f32 [address], old;
)");
}

Entry NormaliseSums() {
  return ChannelSums(kNormaliseSums, "x sums count pixels channels", R"(
  .reg .f32 value;
  .reg .f64 precise;
)",
                     R"(
  ld.global.f32 value, [at];
  cvt.f64.f32 precise, value;
  add.f64 a, a, precise;
  fma.rn.f64 b, precise, precise, b;
)",
                     R"(
  store.f64 a, sums, block;
  add.u32 k, block, channels;
  store.f64 b, sums, k;
)");
}

Entry NormaliseBackwardSums() {
  return ChannelSums(kNormaliseBackwardSums,
                     "x dy statistics sums gradients count pixels channels "
                     "beta",
                     fmt::format(R"(
  .reg .u32 channel;
  mov.u32 channel, block;
{}
  .reg .f32 value, gradient;
  .reg .f64 centre, factor, normal, precise;
  cvt.f64.f32 centre, mean;
  cvt.f64.f32 factor, inverse;
)",
                                 kStatisticsOfChannel),
                     R"(
  ld.global.f32 value, [at];
  add.u64 at, dy, offset;
  ld.global.f32 gradient, [at];
  cvt.f64.f32 normal, value;
  sub.f64 normal, normal, centre;
  mul.f64 normal, normal, factor;
  cvt.f64.f32 precise, gradient;
  add.f64 a, a, precise;
  fma.rn.f64 b, precise, normal, b;
)",
                     R"(
  store.f64 a, sums, block;
  store.f64 b, sums, second;
  // The scale's gradient is b, the offset's a.
  mad.wide.u32 at, block, 4, gradients;
  mad.wide.u32 address, second, 4, gradients;
  setp.eq.f32 past, beta, 0f00000000;
  @past bra STORE;
  cvt.f64.f32 factor, beta;
  ld.global.f32 value, [at];
  cvt.f64.f32 precise, value;
  fma.rn.f64 b, factor, precise, b;
  ld.global.f32 value, [address];
  cvt.f64.f32 precise, value;
  fma.rn.f64 a, factor, precise, a;
STORE:
  cvt.rn.f32.f64 value, b;
  st.global.f32 [at], value;
  cvt.rn.f32.f64 value, a;
  st.global.f32 [address], value;
)");
}

Entry NormaliseStatistics() {
  return Elements(kNormaliseStatistics,
                  "sums statistics channels inverse_count epsilon", "channels",
                  R"(
  .reg .u32 second;
  .reg .f64 mean, variance, square;
  .reg .f32 value;
  add.u32 second, i, channels;
  load.f64 mean, sums, i;
  mul.f64 mean, mean, inverse_count;
  load.f64 variance, sums, second;
  mul.f64 square, mean, mean;
  neg.f64 square, square;
  fma.rn.f64 variance, variance, inverse_count, square;
  max.f64 variance, variance, 0d0000000000000000;
  add.f64 variance, variance, epsilon;
  sqrt.rn.f64 variance, variance;
  rcp.rn.f64 variance, variance;
  cvt.rn.f32.f64 value, mean;
  store.f32 value, statistics, i;
  cvt.rn.f32.f64 value, variance;
  store.f32 value, statistics, second;
)");
}

Entry Normalise() {
  return Elements(kNormalise, "x statistics parameters y count pixels channels",
                  "count",
                  fmt::format(R"({}{}
  .reg .f32 value, scale, shift;
  load.f32 scale, parameters, channel;
  load.f32 shift, parameters, second;
  load.f32 value, x, i;
  sub.f32 value, value, mean;
  mul.f32 value, value, inverse;
  fma.rn.f32 value, value, scale, shift;
  store.f32 value, y, i;
)",
                              kChannelOfElement, kStatisticsOfChannel));
}

Entry NormaliseBackward() {
  return Elements(kNormaliseBackward,
                  "x dy sums statistics parameters dx count pixels channels "
                  "inverse_count beta",
                  "count",
                  fmt::format(R"({}{}
  .reg .f64 sum;
  .reg .f32 gradients, products, value, gradient, scale, old;
  load.f64 sum, sums, channel;
  mul.f64 sum, sum, inverse_count;
  cvt.rn.f32.f64 gradients, sum;
  load.f64 sum, sums, second;
  mul.f64 sum, sum, inverse_count;
  cvt.rn.f32.f64 products, sum;
  load.f32 scale, parameters, channel;
  mul.f32 scale, scale, inverse;
  load.f32 value, x, i;
  sub.f32 value, value, mean;
  mul.f32 value, value, inverse;
  mul.f32 value, value, products;
  load.f32 gradient, dy, i;
  sub.f32 gradient, gradient, gradients;
  sub.f32 gradient, gradient, value;
  mul.f32 gradient, gradient, scale;
  mad.wide.u32 address, i, 4, dx;
  setp.eq.f32 past, beta, 0f00000000;
  @past bra STORE;
  ld.global.f32 old, [address];
  fma.rn.f32 gradient, beta, old, gradient;
STORE:
  st.global.f32 [address], gradient;
)",
                              kChannelOfElement, kStatisticsOfChannel));
}

Entry UpdateRunning() {
  return Elements(kUpdateRunning,
                  "statistics running channels momentum unbiased epsilon",
                  "channels",
                  fmt::format(R"(
  .reg .u32 channel;
  mov.u32 channel, i;
{}
  .reg .f32 old, variance;
  load.f32 old, running, channel;
  sub.f32 mean, mean, old;
  fma.rn.f32 old, momentum, mean, old;
  st.global.f32 [address], old;
  mul.f32 variance, inverse, inverse;
  rcp.rn.f32 variance, variance;
  sub.f32 variance, variance, epsilon;
  max.f32 variance, variance, 0f00000000;
  load.f32 old, running, second;
  mul.f32 variance, variance, unbiased;
  sub.f32 variance, variance, old;
  fma.rn.f32 old, momentum, variance, old;
  st.global.f32 [address], old;
)",
                              kStatisticsOfChannel));
}

// Adds what is there to `value`, unless `beta` is 0, and stores it.
constexpr std::string_view kStoreWithBeta = R"(
  .reg .f32 there;
  setp.eq.f32 past, beta, 0f00000000;
  @past bra STORE;
  ld.global.f32 there, [address];
  fma.rn.f32 value, beta, there, value;
STORE:
  st.global.f32 [address], value;
)";

// sigmoid = 1 / (1 + e^-value)
constexpr std::string_view kSigmoidOfValue = R"(
  .reg .f32 sigmoid;
  mul.f32 sigmoid, value, 0fBFB8AA3B;
  ex2.approx.f32 sigmoid, sigmoid;
  add.f32 sigmoid, sigmoid, 0f3F800000;
  rcp.rn.f32 sigmoid, sigmoid;
)";

// `body` replaces `value`.
Entry Value(const ActivationKernel& kernel, std::string_view body) {
  return Elements(kernel, "x y count alpha beta", "count",
                  fmt::format(R"(
  .reg .f32 value;
  load.f32 value, x, i;
{}
  store.f32 value, y, i;
)",
                              body));
}

// `body` computes `slope` from `value`, which was saved.
Entry Slope(const SlopeKernel& kernel, std::string_view body) {
  return Elements(kernel, "saved dy dx count alpha beta", "count",
                  fmt::format(R"(
  .reg .f32 value, slope;
  load.f32 value, saved, i;
{}
  load.f32 value, dy, i;
  mul.f32 value, value, slope;
  mad.wide.u32 address, i, 4, dx;
{})",
                              body, kStoreWithBeta));
}

std::vector<Entry> Activations() {
  const std::string sigmoid(kSigmoidOfValue);
  return {Value(kSigmoid, sigmoid + "  mov.f32 value, sigmoid;\n"),
          Value(kHardSigmoid, R"(
  fma.rn.f32 value, alpha, value, beta;
  cvt.sat.f32.f32 value, value;
)"),
          Value(kSwish, sigmoid + "  mul.f32 value, value, sigmoid;\n"),
          // 1 / 6 and 1 / 2
          Value(kHardSwish, R"(
  .reg .f32 part;
  fma.rn.f32 part, value, 0f3E2AAAAB, 0f3F000000;
  cvt.sat.f32.f32 part, part;
  mul.f32 value, value, part;
)"),
          Slope(kSigmoidBackward, R"(
  neg.f32 slope, value;
  fma.rn.f32 slope, slope, value, value;
)"),
          Slope(kHardSigmoidBackward, R"(
  .reg .pred inside;
  setp.gt.f32 inside, value, 0f00000000;
  setp.lt.and.f32 inside, value, 0f3F800000, inside;
  selp.f32 slope, alpha, 0f00000000, inside;
)"),
          // sigmoid * (1 + value * (1 - sigmoid))
          Slope(kSwishBackward, sigmoid + R"(
  mov.f32 slope, 0f3F800000;
  sub.f32 slope, slope, sigmoid;
  fma.rn.f32 slope, value, slope, 0f3F800000;
  mul.f32 slope, slope, sigmoid;
)"),
          // value / 3 + 1 / 2 between -3 and 3
          Slope(kHardSwishBackward, R"(
  .reg .pred outside;
  fma.rn.f32 slope, value, 0f3EAAAAAB, 0f3F000000;
  setp.lt.f32 outside, value, 0fC0400000;
  selp.f32 slope, 0f00000000, slope, outside;
  setp.gt.f32 outside, value, 0f40400000;
  selp.f32 slope, 0f3F800000, slope, outside;
)")};
}

Entry CopyRows() {
  return Elements(kCopyRows,
                  "from to count width rows from_plane from_row to_plane "
                  "to_row beta",
                  "count",
                  fmt::format(R"(
  .reg .u32 plane, row, column;
  .reg .u64 wide;
  .reg .f32 value;
  div.u32 row, i, width;
  rem.u32 column, i, width;
  div.u32 plane, row, rows;
  rem.u32 row, row, rows;
  cvt.u64.u32 wide, column;
  mad.wide.u32 wide, row, from_row, wide;
  mad.wide.u32 wide, plane, from_plane, wide;
  shl.b64 wide, wide, 2;
  add.u64 address, from, wide;
  ld.global.f32 value, [address];
  cvt.u64.u32 wide, column;
  mad.wide.u32 wide, row, to_row, wide;
  mad.wide.u32 wide, plane, to_plane, wide;
  shl.b64 wide, wide, 2;
  add.u64 address, to, wide;
{})",
                              kStoreWithBeta));
}

Entry Multiply() {
  return Elements(kMultiply, "a b out count span beta", "count",
                  fmt::format(R"(
  .reg .u32 part;
  .reg .f32 value, other;
  load.f32 value, a, i;
  div.u32 part, i, span;
  load.f32 other, b, part;
  mul.f32 value, value, other;
  mad.wide.u32 address, i, 4, out;
{})",
                              kStoreWithBeta));
}

Entry Resample() {
  return Elements(kResample,
                  "x y slices rows columns count to_depth to_height to_width "
                  "from_depth from_height from_width beta",
                  "count",
                  fmt::format(R"(
  .reg .u32 slice, row, column, plane, end_slice, end_row, end_column, tap, at;
  .reg .u32 first_row, first_column, rows_before;
  .reg .u64 slice_taps, row_taps, column_taps, wide, base;
  .reg .f32 value, slice_weight, weight, within, across, pixel, inner;
  .reg .pred more;
  div.u32 plane, i, to_width;
  rem.u32 column, i, to_width;
  rem.u32 row, plane, to_height;
  div.u32 plane, plane, to_height;
  rem.u32 slice, plane, to_depth;
  div.u32 plane, plane, to_depth;
  // The taps come after to_depth + 1, to_height + 1, or to_width + 1, starts.
  add.u32 at, to_depth, 1;
  mad.wide.u32 slice_taps, at, 4, slices;
  add.u32 at, to_height, 1;
  mad.wide.u32 row_taps, at, 4, rows;
  add.u32 at, to_width, 1;
  mad.wide.u32 column_taps, at, 4, columns;
  load.u32 slice, slices, slice;
  ld.global.u32 end_slice, [address+4];
  load.u32 first_row, rows, row;
  ld.global.u32 end_row, [address+4];
  load.u32 first_column, columns, column;
  ld.global.u32 end_column, [address+4];
  mul.lo.u32 plane, plane, from_depth;
  mov.f32 value, 0f00000000;
SLICE:
  setp.ge.u32 more, slice, end_slice;
  @more bra SUMMED;
  mad.wide.u32 address, slice, 8, slice_taps;
  ld.global.u32 tap, [address];
  ld.global.f32 slice_weight, [address+4];
  add.u32 tap, tap, plane;
  mul.lo.u32 rows_before, tap, from_height;
  mov.f32 within, 0f00000000;
  mov.u32 row, first_row;
ROW:
  setp.ge.u32 more, row, end_row;
  @more bra WITHIN;
  mad.wide.u32 address, row, 8, row_taps;
  ld.global.u32 tap, [address];
  ld.global.f32 weight, [address+4];
  add.u32 tap, tap, rows_before;
  mul.wide.u32 base, tap, from_width;
  mov.f32 across, 0f00000000;
  mov.u32 column, first_column;
COLUMN:
  setp.ge.u32 more, column, end_column;
  @more bra ACROSS;
  mad.wide.u32 address, column, 8, column_taps;
  ld.global.u32 tap, [address];
  cvt.u64.u32 wide, tap;
  add.u64 wide, base, wide;
  shl.b64 wide, wide, 2;
  add.u64 wide, x, wide;
  ld.global.f32 pixel, [wide];
  ld.global.f32 inner, [address+4];
  fma.rn.f32 across, pixel, inner, across;
  add.u32 column, column, 1;
  bra COLUMN;
ACROSS:
  fma.rn.f32 within, across, weight, within;
  add.u32 row, row, 1;
  bra ROW;
WITHIN:
  fma.rn.f32 value, within, slice_weight, value;
  add.u32 slice, slice, 1;
  bra SLICE;
SUMMED:
  mad.wide.u32 address, i, 4, y;
{})",
                              kStoreWithBeta));
}

Entry SumProducts() {
  return ChannelSums(kSumProducts, "x y out count pixels channels beta", R"(
  .reg .f32 value, factor;
  .reg .f64 precise;
)",
                     R"(
  ld.global.f32 value, [at];
  add.u64 at, y, offset;
  ld.global.f32 factor, [at];
  cvt.f64.f32 precise, value;
  cvt.f64.f32 other, factor;
  fma.rn.f64 a, precise, other, a;
)",
                     fmt::format(R"(
  cvt.rn.f32.f64 value, a;
  mad.wide.u32 address, block, 4, out;
{})",
                                 kStoreWithBeta));
}

const std::vector<Entry>& Entries() {
  static const std::vector<Entry> kEntries = [] {
    std::vector<Entry> entries = {SubtractLabels(),    Dropout(),
                                  DropoutBackward(),   Update(),
                                  NormaliseSums(),     NormaliseStatistics(),
                                  Normalise(),         NormaliseBackwardSums(),
                                  NormaliseBackward(), UpdateRunning(),
                                  CopyRows(),          Multiply(),
                                  SumProducts(),       Resample()};
    for (Entry& entry : Activations()) entries.push_back(std::move(entry));
    return entries;
  }();
  return kEntries;
}

}  // namespace

const std::vector<std::string_view>& KernelNames() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const Entry& entry : Entries()) names.push_back(entry.name);
    return names;
  }();
  return kNames;
}

const std::string& KernelText() {
  static const std::string kText = [] {
    // For a K80 and everything newer, in words that every driver knows.
    std::string text = ".version 3.1\n.target sm_35\n.address_size 64\n";
    for (const Entry& entry : Entries()) text += entry.text;
    return WithElements(std::move(text));
  }();
  return kText;
}

}  // namespace ucudnn::cudnn
