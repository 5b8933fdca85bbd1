#ifndef UCUDNN_BASE_CONV_PROBLEM_H_
#define UCUDNN_BASE_CONV_PROBLEM_H_

// A convolution without its batch size: the unit in which everything is
// measured, stored and planned. Its text form is its key everywhere, in files,
// databases and on the wire:
//
//   forward-c96-h27w27-k256-r5s5-pad2x2-str1x1-dil1x1-g2-FP32-NCHW
//   backward_data-c64-d8h56w56-k64-t3r3s3-pad1x1x1-str1x1x1-dil1x1x1-g1-...
//   forward-n16-c3-h112w112-...   of 16 frames for each image of the batch
//
// Names follow convention: C input channels, H and W input height and width, K
// filters, R and S filter height and width; with a third dimension, D input
// depth and T filter depth. N, where it is not 1, is the number of images that
// are convolved for one image of the batch. All three operations carry the
// geometry of the forward convolution.

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

enum class ConvOp { kForward, kBackwardData, kBackwardFilter };
inline constexpr std::array kConvOps = {ConvOp::kForward, ConvOp::kBackwardData,
                                        ConvOp::kBackwardFilter};

// The data type and the arithmetic.
enum class Precision {
  kFp32,        // float data, float FMA
  kTf32,        // float data, TF32 matrix units
  kTrueHalf,    // half data, half arithmetic
  kPseudoHalf,  // half data, float arithmetic
  kBf16,        // bfloat16 data, float arithmetic
};
inline constexpr std::array kPrecisions = {
    Precision::kFp32, Precision::kTf32, Precision::kTrueHalf,
    Precision::kPseudoHalf, Precision::kBf16};

enum class Layout { kNchw, kNhwc };  // NCDHW and NDHWC with three dimensions
inline constexpr std::array kLayouts = {Layout::kNchw, Layout::kNhwc};

// "forward", "FP32", "NCHW": the spelling of files, flags and JSON.
std::string_view Name(ConvOp op);
std::string_view Name(Precision precision);
std::string_view Name(Layout layout);
Result<ConvOp> ParseConvOp(std::string_view text);
Result<Precision> ParsePrecision(std::string_view text);
Result<Layout> ParseLayout(std::string_view text);

// Whether an algorithm of precision `offered` may serve a request for
// `asked`: the same data type, and arithmetic at least as precise. TRUE_HALF
// admits PSEUDO_HALF, TF32 admits FP32.
bool Admits(Precision asked, Precision offered);

// Bytes of one element: 4 for FP32 and TF32, 2 otherwise.
std::int64_t ElementBytes(Precision precision);

// Three spatial extents in the order depth, height, width. In two dimensions
// depth is neutral: extent, filter, stride and dilation 1, padding 0.
using Spatial = std::array<std::int64_t, 3>;

struct ConvGeometry {
  int spatial_dims = 2;  // 2 or 3
  // Convolved for one image of the batch: frames or views that a model folds
  // into its batch. Wherever images are counted, those of the batch are meant.
  std::int64_t images = 1;
  std::int64_t channels = 1;  // C, over all groups
  std::int64_t filters = 1;   // K, over all groups
  std::int64_t groups = 1;    // divides C and K
  Spatial input = {1, 1, 1};
  Spatial filter = {1, 1, 1};
  Spatial padding = {0, 0, 0};  // on both sides
  Spatial stride = {1, 1, 1};
  Spatial dilation = {1, 1, 1};

  // floor((input + 2 padding - dilation (filter - 1) - 1) / stride) + 1
  Spatial output() const;
  // Elements of the input and the output of one image of the batch, and of the
  // filter.
  std::int64_t input_elements() const;
  std::int64_t output_elements() const;
  std::int64_t filter_elements() const;
  // Multiply-adds of one image of the batch; the same for the three
  // operations.
  std::int64_t multiply_adds() const;

  friend auto operator<=>(const ConvGeometry&, const ConvGeometry&) = default;
};

struct ConvProblem {
  ConvOp op = ConvOp::kForward;
  ConvGeometry geometry;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;

  friend auto operator<=>(const ConvProblem&, const ConvProblem&) = default;
};

// The same work without images folded into the batch: `batch` times
// geometry.images images, each for itself.
struct ConvWork {
  ConvProblem problem;
  BatchSize batch;
};
ConvWork Unfold(const ConvProblem& problem, BatchSize batch);

// kInvalidArgument, naming the field and its value, unless every extent is
// positive, paddings are not negative, groups divide C and K, the dilated
// filter fits into the padded input, and any tensor of kMaxBatchSize images
// takes less than 2^63 bytes.
Status Validate(const ConvGeometry& geometry);

// The canonical text form of a valid problem; equal problems have equal texts.
std::string ToString(const ConvProblem& problem);

// Reads back exactly what ToString writes; kInvalidArgument, naming the part
// that is wrong, for anything else.
Result<ConvProblem> ParseConvProblem(std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_CONV_PROBLEM_H_
