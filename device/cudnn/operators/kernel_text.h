#ifndef UCUDNN_DEVICE_CUDNN_OPERATORS_KERNEL_TEXT_H_
#define UCUDNN_DEVICE_CUDNN_OPERATORS_KERNEL_TEXT_H_

// The kernels of device/cudnn/operators: their parameters here, their PTX in
// kernel_text.cc.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::cudnn {

// Every kernel is launched in blocks of this many threads.
inline constexpr unsigned int kBlockThreads = 256;

// A kernel and the types of its parameters, each a pointer to device memory,
// std::uint32_t, float or double.
template <class... P>
struct Kernel {
  const char* name;
};

// A thread for each element, `count` of them, unless it says otherwise.

// (gradients, labels, probabilities, count, pixels, channels, scale, inverse)
// For label i of pixel i % pixels of image i / pixels, at its element of
// `gradients`: probabilities[i] = element * inverse; element -= scale.
inline constexpr Kernel<float*, const std::int32_t*, float*, std::uint32_t,
                        std::uint32_t, std::uint32_t, float, float>
    kSubtractLabels{"ucudnn_subtract_labels"};

// (from, to, mask, count, seed, threshold, factor)
// mask = DropoutHash(i, seed) >= threshold; to = mask ? from * factor : 0.
inline constexpr Kernel<const float*, float*, std::uint8_t*, std::uint32_t,
                        std::uint32_t, std::uint32_t, float>
    kDropout{"ucudnn_dropout"};
// (from, to, mask, count, factor): to = mask ? from * factor : 0.
inline constexpr Kernel<const float*, float*, const std::uint8_t*,
                        std::uint32_t, float>
    kDropoutBackward{"ucudnn_dropout_backward"};

// (gradients, velocities, weights, count, rate, momentum)
inline constexpr Kernel<const float*, float*, float*, std::uint32_t, float,
                        float>
    kUpdate{"ucudnn_update"};

// Of normalisations. The statistics are cuDNN's: the channels' means, then
// 1 / sigma.

// (x, sums, count, pixels, channels) A block for each channel: sums of x and of
// x², over `count` elements each.
inline constexpr Kernel<const float*, double*, std::uint32_t, std::uint32_t,
                        std::uint32_t>
    kNormaliseSums{"ucudnn_normalise_sums"};
// (sums, statistics, channels, inverse count, epsilon) A thread for each
// channel.
inline constexpr Kernel<const double*, float*, std::uint32_t, double, double>
    kNormaliseStatistics{"ucudnn_normalise_statistics"};
// (x, statistics, parameters, y, count, pixels, channels)
inline constexpr Kernel<const float*, const float*, const float*, float*,
                        std::uint32_t, std::uint32_t, std::uint32_t>
    kNormalise{"ucudnn_normalise"};
// (x, dy, statistics, sums, gradients, count, pixels, channels, beta) A block
// for each channel: sums of dy and of dy * normal.
inline constexpr Kernel<const float*, const float*, const float*, double*,
                        float*, std::uint32_t, std::uint32_t, std::uint32_t,
                        float>
    kNormaliseBackwardSums{"ucudnn_normalise_backward_sums"};
// (x, dy, sums, statistics, parameters, dx, count, pixels, channels,
//  inverse count, beta)
inline constexpr Kernel<const float*, const float*, const double*, const float*,
                        const float*, float*, std::uint32_t, std::uint32_t,
                        std::uint32_t, double, float>
    kNormaliseBackward{"ucudnn_normalise_backward"};
// (statistics, running, channels, momentum, unbiased, epsilon) A thread for
// each channel; its variance counts `unbiased` times.
inline constexpr Kernel<const float*, float*, std::uint32_t, float, float,
                        float>
    kUpdateRunning{"ucudnn_update_running"};

// (x, y, count, alpha, beta)
using ActivationKernel =
    Kernel<const float*, float*, std::uint32_t, float, float>;
inline constexpr ActivationKernel kSigmoid{"ucudnn_sigmoid"};
inline constexpr ActivationKernel kHardSigmoid{"ucudnn_hard_sigmoid"};
inline constexpr ActivationKernel kSwish{"ucudnn_swish"};
inline constexpr ActivationKernel kHardSwish{"ucudnn_hard_swish"};
// (saved, dy, dx, count, alpha, kept) dx = slope * dy + kept * dx.
using SlopeKernel =
    Kernel<const float*, const float*, float*, std::uint32_t, float, float>;
inline constexpr SlopeKernel kSigmoidBackward{"ucudnn_sigmoid_backward"};
inline constexpr SlopeKernel kHardSigmoidBackward{
    "ucudnn_hard_sigmoid_backward"};
inline constexpr SlopeKernel kSwishBackward{"ucudnn_swish_backward"};
inline constexpr SlopeKernel kHardSwishBackward{"ucudnn_hard_swish_backward"};

// (from, to, count, width, rows, from_plane, from_row, to_plane, to_row, beta)
inline constexpr Kernel<const float*, float*, std::uint32_t, std::uint32_t,
                        std::uint32_t, std::uint32_t, std::uint32_t,
                        std::uint32_t, std::uint32_t, float>
    kCopyRows{"ucudnn_copy_rows"};
// (a, b, out, count, span, beta)
inline constexpr Kernel<const float*, const float*, float*, std::uint32_t,
                        std::uint32_t, float>
    kMultiply{"ucudnn_multiply"};
// (x, b, out, count, pixels, channels, beta) A block for each sum of `count`
// products; `pixels` is the same, `channels` 0.
inline constexpr Kernel<const float*, const float*, float*, std::uint32_t,
                        std::uint32_t, std::uint32_t, float>
    kSumProducts{"ucudnn_sum_products"};

// (x, y, slices, rows, columns, count, to_depth, to_height, to_width,
//  from_depth, from_height, from_width, beta) `slices`, `rows` and `columns`
// are AxisTaps, packed: starts, then for each tap its index and weight.
inline constexpr Kernel<const float*, float*, const void*, const void*,
                        const void*, std::uint32_t, std::uint32_t,
                        std::uint32_t, std::uint32_t, std::uint32_t,
                        std::uint32_t, std::uint32_t, float>
    kResample{"ucudnn_resample"};

// The names of all kernels, and the module that has them.
const std::vector<std::string_view>& KernelNames();
const std::string& KernelText();

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_OPERATORS_KERNEL_TEXT_H_
