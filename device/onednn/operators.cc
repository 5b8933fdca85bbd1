#include "device/onednn/operators.h"

#include <algorithm>
#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/onednn/blend.h"
#include "device/onednn/onednn_device.h"
#include "device/onednn/runtime.h"

namespace ucudnn {
namespace onednn {
namespace {

using dnnl::memory;

const dnnl::normalization_flags kNormaliseFlags =
    dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

// oneDNN takes inputs by non-const pointers.
void* Writable(const void* data) { return const_cast<void*>(data); }

// For operators to which a volume's slices are more rows.
memory::desc Form(BatchSize batch, const ImageExtent& e) {
  return {{batch.count(), e.channels, e.depth * e.height, e.width},
          memory::data_type::f32,
          memory::format_tag::nchw};
}

memory::desc FloatRow(std::int64_t count) {
  return Row(count, memory::data_type::f32);
}

// Of one axis: what a window covers of the input.
struct Cover {
  Cover(const Window& window, std::int64_t output, std::int64_t input)
      : begin(
            std::max<std::int64_t>(output * window.stride - window.before, 0)),
        end(std::min(output * window.stride - window.before + window.extent,
                     input)) {}

  std::int64_t begin;
  std::int64_t end;
};

// The first pixel of the window whose value is `y`; if all are NaN, the first.
std::int64_t FirstMaximum(const ImageExtent& in,
                          const std::array<Cover, 3>& window, const float* x,
                          float y) {
  const auto& [slices, rows, columns] = window;
  const auto pixel = [&](std::int64_t slice, std::int64_t row,
                         std::int64_t column) {
    return (slice * in.height + row) * in.width + column;
  };
  for (std::int64_t i = slices.begin; i < slices.end; ++i) {
    for (std::int64_t j = rows.begin; j < rows.end; ++j) {
      for (std::int64_t k = columns.begin; k < columns.end; ++k) {
        if (x[pixel(i, j, k)] == y) return pixel(i, j, k);
      }
    }
  }
  return pixel(slices.begin, rows.begin, columns.begin);
}

// Adds dy to the first maximum of each window of one channel.
void AddToMaxima(const Pooling& pooling, const float* x, const float* y,
                 const float* dy, float* dx) {
  const ImageExtent& in = pooling.input;
  const ImageExtent& out = pooling.output;
  for (std::int64_t i = 0; i < out.pixels(); ++i) {
    const std::array window = {
        Cover(pooling.windows[0], i / out.width / out.height, in.depth),
        Cover(pooling.windows[1], i / out.width % out.height, in.height),
        Cover(pooling.windows[2], i % out.width, in.width)};
    dx[FirstMaximum(in, window, x, y[i])] += dy[i];
  }
}

// *out = value + beta * *out, without reading it if beta is 0.
void Store(double value, float beta, float* out) {
  const double old = beta == 0.0F ? 0.0 : double{beta} * double{*out};
  *out = static_cast<float>(value + old);
}

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

float ValueOf(const Activation& activation, float x) {
  switch (activation.kind) {
    case Activation::Kind::kSigmoid:
      return Sigmoid(x);
    case Activation::Kind::kHardSigmoid:
      return std::clamp(activation.alpha * x + activation.beta, 0.0F, 1.0F);
    case Activation::Kind::kSwish:
      return x * Sigmoid(x);
    case Activation::Kind::kHardSwish:
      break;
  }
  return x * std::clamp(x / 6 + 0.5F, 0.0F, 1.0F);
}

float SlopeOf(const Activation& activation, float saved) {
  switch (activation.kind) {
    case Activation::Kind::kSigmoid:
      return saved * (1 - saved);
    case Activation::Kind::kHardSigmoid:
      return saved > 0 && saved < 1 ? activation.alpha : 0.0F;
    case Activation::Kind::kSwish: {
      const float sigmoid = Sigmoid(saved);
      return sigmoid * (1 + saved * (1 - sigmoid));
    }
    case Activation::Kind::kHardSwish:
      break;
  }
  if (saved < -3) return 0;
  return saved <= 3 ? saved / 3 + 0.5F : 1.0F;
}

// Each pixel of `planes` planes of `to` is a weighted sum of pixels of `from`.
void Resample(const std::array<AxisTaps, 3>& taps, std::int64_t planes,
              const ImageExtent& from, const ImageExtent& to, const float* x,
              float beta, float* y) {
  // visit(element, weight) for the taps of one pixel of one axis.
  const auto each = [](const AxisTaps& axis, std::int64_t pixel,
                       const auto& visit) {
    const auto at = static_cast<std::size_t>(pixel);
    for (auto t = static_cast<std::size_t>(axis.starts[at]);
         t < static_cast<std::size_t>(axis.starts[at + 1]); ++t) {
      visit(std::int64_t{axis.from[t]}, double{axis.weights[t]});
    }
  };
  for (std::int64_t i = 0; i < planes * to.pixels(); ++i) {
    const float* const plane = x + i / to.pixels() * from.pixels();
    double sum = 0;
    each(taps[0], i / to.width / to.height % to.depth, [&](auto d, double u) {
      each(taps[1], i / to.width % to.height, [&](auto h, double v) {
        const float* const row = plane + (d * from.height + h) * from.width;
        each(taps[2], i % to.width,
             [&](auto w, double t) { sum += u * v * t * double{row[w]}; });
      });
    });
    Store(sum, beta, &y[i]);
  }
}

// The sums of squares of one pixel's channels, which a local response divides
// by a power of.
class LocalSums {
 public:
  LocalSums(const LocalResponse& response, const float* pixel)
      : before_((response.size - 1) / 2),
        after_(response.size - 1 - before_),
        sums_(static_cast<std::size_t>(response.extent.channels)) {
    for (std::int64_t c = 0; c < response.extent.channels; ++c) {
      double squares = 0;
      for (std::int64_t other = std::max<std::int64_t>(0, c - before_);
           other <= std::min(c + after_, response.extent.channels - 1);
           ++other) {
        const double value{pixel[other * response.extent.pixels()]};
        squares += value * value;
      }
      sums_[static_cast<std::size_t>(c)] =
          response.bias +
          response.alpha / static_cast<double>(response.size) * squares;
    }
  }
  double Of(std::int64_t channel) const {
    return sums_[static_cast<std::size_t>(channel)];
  }
  // Whether the sum of `channel` has `other` in it.
  bool Reads(std::int64_t channel, std::int64_t other) const {
    return channel - before_ <= other && other <= channel + after_;
  }

 private:
  std::int64_t before_;
  std::int64_t after_;
  std::vector<double> sums_;
};

// visit(i) for the element i of channel 0 of every pixel.
template <class Visit>
void ForEachPixelOf(BatchSize batch, const ImageExtent& extent, Visit&& visit) {
  for (std::int64_t n = 0; n < batch.count(); ++n) {
    for (std::int64_t p = 0; p < extent.pixels(); ++p) {
      visit(n * extent.elements() + p);
    }
  }
}

// visit(i) for every element i of the channel.
template <class Visit>
void ForEachOfChannel(BatchSize batch, const ImageExtent& extent,
                      std::int64_t channel, Visit&& visit) {
  for (std::int64_t n = 0; n < batch.count(); ++n) {
    const std::int64_t begin =
        (n * extent.channels + channel) * extent.pixels();
    for (std::int64_t i = begin; i < begin + extent.pixels(); ++i) visit(i);
  }
}

// (x - mean) / sigma of a channel.
struct Normal {
  Normal(const Normalisation& normalisation, const float* statistics,
         std::int64_t channel)
      : mean(double{statistics[channel]}),
        inverse(
            1 /
            std::sqrt(
                double{statistics[normalisation.extent.channels + channel]} +
                normalisation.epsilon)) {}
  double Of(float x) const { return (double{x} - mean) * inverse; }

  double mean;
  double inverse;
};

dnnl::algorithm AlgorithmOf(Pooling::Kind kind) {
  switch (kind) {
    case Pooling::Kind::kMax:
      return dnnl::algorithm::pooling_max;
    case Pooling::Kind::kAverage:
      return dnnl::algorithm::pooling_avg_include_padding;
    case Pooling::Kind::kAverageInside:
      return dnnl::algorithm::pooling_avg_exclude_padding;
  }
  return dnnl::algorithm::undef;
}

class OneDnnOperators final : public Operators {
 public:
  explicit OneDnnOperators(const Runtime& runtime) : runtime_(runtime) {}

  Status Relu(BatchSize batch, std::int64_t elements, const float* x,
              float* y) override {
    return Computed([&] {
      const memory::desc form = FloatRow(batch.count() * elements);
      Execute(dnnl::eltwise_forward(ReluForward(form)),
              {{DNNL_ARG_SRC, Of(form, x)}, {DNNL_ARG_DST, Of(form, y)}});
    });
  }

  Status ReluBackward(BatchSize batch, std::int64_t elements, const float* y,
                      const float* dy, float beta, float* dx) override {
    const std::int64_t count = batch.count() * elements;
    return Summed(count, beta, dx, [&](float* result) {
      const memory::desc form = FloatRow(count);
      Execute(dnnl::eltwise_backward(
                  {{dnnl::algorithm::eltwise_relu, form, form, 0.0F},
                   runtime_.engine,
                   ReluForward(form)}),
              {{DNNL_ARG_SRC, Of(form, y)},
               {DNNL_ARG_DIFF_DST, Of(form, dy)},
               {DNNL_ARG_DIFF_SRC, Of(form, result)}});
    });
  }

  Status Activate(BatchSize batch, std::int64_t elements,
                  const Activation& activation, const float* x,
                  float* y) override {
    for (std::int64_t i = 0; i < batch.count() * elements; ++i) {
      y[i] = ValueOf(activation, x[i]);
    }
    return {};
  }

  Status ActivateBackward(BatchSize batch, std::int64_t elements,
                          const Activation& activation, const float* saved,
                          const float* dy, float beta, float* dx) override {
    for (std::int64_t i = 0; i < batch.count() * elements; ++i) {
      Store(double{dy[i]} * double{SlopeOf(activation, saved[i])}, beta,
            &dx[i]);
    }
    return {};
  }

  Status CopyRows(std::int64_t planes, std::int64_t rows, std::int64_t width,
                  const float* a, const PlaneStrides& strides, float beta,
                  float* out, const PlaneStrides& out_strides) override {
    for (std::int64_t n = 0; n < planes * rows; ++n) {
      const std::int64_t plane = n / rows;
      const std::int64_t row = n % rows;
      const float* const from = a + plane * strides.plane + row * strides.row;
      float* const to = out + plane * out_strides.plane + row * out_strides.row;
      for (std::int64_t i = 0; i < width; ++i) {
        Store(double{from[i]}, beta, &to[i]);
      }
    }
    return {};
  }

  Status Multiply(std::int64_t count, std::int64_t span, const float* a,
                  const float* b, float beta, float* out) override {
    for (std::int64_t i = 0; i < count; ++i) {
      Store(double{a[i]} * double{b[i / span]}, beta, &out[i]);
    }
    return {};
  }

  Status SumProducts(std::int64_t count, std::int64_t span, const float* a,
                     const float* b, float beta, float* out) override {
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (std::int64_t k = i * span; k < (i + 1) * span; ++k) {
        sum += double{a[k]} * double{b[k]};
      }
      Store(sum, beta, &out[i]);
    }
    return {};
  }

  Status Resize(BatchSize batch, const Resizing& resizing, const float* x,
                float* y) override {
    Resample(TapsOf(resizing, false), batch.count() * resizing.input.channels,
             resizing.input, resizing.output, x, 0, y);
    return {};
  }

  Status ResizeBackward(BatchSize batch, const Resizing& resizing,
                        const float* dy, float beta, float* dx) override {
    Resample(TapsOf(resizing, true), batch.count() * resizing.input.channels,
             resizing.output, resizing.input, dy, beta, dx);
    return {};
  }

  Status NormaliseLocally(BatchSize batch, const LocalResponse& response,
                          const float* x, float* y) override {
    ForEachPixelOf(batch, response.extent, [&](std::int64_t pixel) {
      const LocalSums sums(response, x + pixel);
      for (std::int64_t c = 0; c < response.extent.channels; ++c) {
        const std::int64_t at = pixel + c * response.extent.pixels();
        y[at] = static_cast<float>(double{x[at]} *
                                   std::pow(sums.Of(c), -response.beta));
      }
    });
    return {};
  }

  //   dx = dy * s^-beta - 2 alpha beta / size * x * sum of dy * y / s,
  // where the sum is over the channels around which x is.
  Status NormaliseLocallyBackward(BatchSize batch,
                                  const LocalResponse& response, const float* x,
                                  const float* y, const float* dy, float beta,
                                  float* dx) override {
    const std::int64_t channels = response.extent.channels;
    const std::int64_t pixels = response.extent.pixels();
    const double factor =
        2 * response.alpha * response.beta / static_cast<double>(response.size);
    ForEachPixelOf(batch, response.extent, [&](std::int64_t pixel) {
      const LocalSums sums(response, x + pixel);
      for (std::int64_t c = 0; c < channels; ++c) {
        double through = 0;
        for (std::int64_t other = 0; other < channels; ++other) {
          if (!sums.Reads(other, c)) continue;
          const std::int64_t at = pixel + other * pixels;
          through += double{dy[at]} * double{y[at]} / sums.Of(other);
        }
        const std::int64_t at = pixel + c * pixels;
        Store(double{dy[at]} * std::pow(sums.Of(c), -response.beta) -
                  factor * double{x[at]} * through,
              beta, &dx[at]);
      }
    });
    return {};
  }

  Status Pool(BatchSize batch, const Pooling& pooling, const float* x,
              float* y) override {
    return Computed([&] {
      const PoolForms forms(batch, pooling);
      Execute(
          dnnl::pooling_forward(
              PoolForward(forms, pooling.kind == Pooling::Kind::kMax
                                     ? dnnl::prop_kind::forward_inference
                                     : dnnl::prop_kind::forward_training)),
          {{DNNL_ARG_SRC, Of(forms.in, x)}, {DNNL_ARG_DST, Of(forms.out, y)}});
    });
  }

  Status PoolBackward(BatchSize batch, const Pooling& pooling, const float* x,
                      const float* y, const float* dy, float beta,
                      float* dx) override {
    const std::int64_t count = batch.count() * pooling.input.elements();
    if (pooling.kind == Pooling::Kind::kMax) {
      if (beta == 0.0F) std::fill_n(dx, count, 0.0F);
      const std::int64_t planes = batch.count() * pooling.input.channels;
      for (std::int64_t i = 0; i < planes; ++i) {
        const std::int64_t in = i * pooling.input.pixels();
        const std::int64_t out = i * pooling.output.pixels();
        AddToMaxima(pooling, x + in, y + out, dy + out, dx + in);
      }
      return {};
    }
    return Summed(count, beta, dx, [&](float* result) {
      const PoolForms forms(batch, pooling);
      Execute(dnnl::pooling_backward(
                  {{forms.algorithm, forms.in, forms.out, forms.strides,
                    forms.kernel, forms.before, forms.after},
                   runtime_.engine,
                   PoolForward(forms, dnnl::prop_kind::forward_training)}),
              {{DNNL_ARG_DIFF_DST, Of(forms.out, dy)},
               {DNNL_ARG_DIFF_SRC, Of(forms.in, result)}});
    });
  }

  // The statistics are the channels' means, then their variances.
  Status Normalise(BatchSize batch, const Normalisation& normalisation,
                   const float* x, const float* parameters, float* y,
                   float* statistics) override {
    return NormaliseWith(dnnl::prop_kind::forward_training, kNormaliseFlags,
                         batch, normalisation, x, parameters, y, statistics);
  }

  Status NormaliseByRunning(BatchSize batch, const Normalisation& normalisation,
                            const float* x, const float* parameters,
                            const float* running, float* y) override {
    return NormaliseWith(
        dnnl::prop_kind::forward_inference,
        kNormaliseFlags | dnnl::normalization_flags::use_global_stats, batch,
        normalisation, x, parameters, y, running);
  }

  Status NormaliseBackward(BatchSize batch, const Normalisation& normalisation,
                           const float* x, const float* dy,
                           const float* parameters, const float* statistics,
                           float beta, float* dx, float gradients_beta,
                           float* gradients) override {
    const ImageExtent& extent = normalisation.extent;
    const std::int64_t channels = extent.channels;
    std::vector<float> computed(static_cast<std::size_t>(2 * channels));
    UCUDNN_RETURN_IF_ERROR(
        Summed(batch.count() * extent.elements(), beta, dx, [&](float* result) {
          const memory::desc form = Form(batch, extent);
          const memory::desc row = FloatRow(channels);
          Execute(
              dnnl::batch_normalization_backward(
                  {{dnnl::prop_kind::backward, form, form,
                    static_cast<float>(normalisation.epsilon), kNormaliseFlags},
                   runtime_.engine,
                   NormaliseForward(dnnl::prop_kind::forward_training,
                                    kNormaliseFlags, form,
                                    normalisation.epsilon)}),
              {{DNNL_ARG_SRC, Of(form, x)},
               {DNNL_ARG_DIFF_DST, Of(form, dy)},
               {DNNL_ARG_MEAN, Of(row, statistics)},
               {DNNL_ARG_VARIANCE, Of(row, statistics + channels)},
               {DNNL_ARG_SCALE, Of(row, parameters)},
               // Not used, but oneDNN 2.6 insists on it.
               {DNNL_ARG_SHIFT, Of(row, parameters + channels)},
               {DNNL_ARG_DIFF_SRC, Of(form, result)},
               {DNNL_ARG_DIFF_SCALE, Of(row, computed.data())},
               {DNNL_ARG_DIFF_SHIFT, Of(row, computed.data() + channels)}});
        }));
    for (std::int64_t i = 0; i < 2 * channels; ++i) {
      Store(double{computed[static_cast<std::size_t>(i)]}, gradients_beta,
            &gradients[i]);
    }
    return {};
  }

  Status SumForNormalise(BatchSize batch, const ImageExtent& extent,
                         const float* x, double* sums) override {
    for (std::int64_t c = 0; c < extent.channels; ++c) {
      double sum = 0;
      double squares = 0;
      ForEachOfChannel(batch, extent, c, [&](std::int64_t i) {
        sum += double{x[i]};
        squares += double{x[i]} * double{x[i]};
      });
      sums[c] = sum;
      sums[extent.channels + c] = squares;
    }
    return {};
  }

  Status NormaliseBySums(BatchSize batch, const Normalisation& normalisation,
                         const float* x, const double* sums, std::int64_t count,
                         const float* parameters, float* y,
                         float* statistics) override {
    const std::int64_t channels = normalisation.extent.channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double mean = sums[c] / static_cast<double>(count);
      const double variance =
          sums[channels + c] / static_cast<double>(count) - mean * mean;
      statistics[c] = static_cast<float>(mean);
      statistics[channels + c] = static_cast<float>(std::max(variance, 0.0));
    }
    return NormaliseByRunning(batch, normalisation, x, parameters, statistics,
                              y);
  }

  Status SumForNormaliseBackward(BatchSize batch,
                                 const Normalisation& normalisation,
                                 const float* x, const float* dy,
                                 const float* statistics, double* sums,
                                 float gradients_beta,
                                 float* gradients) override {
    const std::int64_t channels = normalisation.extent.channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const Normal normal(normalisation, statistics, c);
      double sum = 0;
      double product = 0;
      ForEachOfChannel(batch, normalisation.extent, c, [&](std::int64_t i) {
        sum += double{dy[i]};
        product += double{dy[i]} * normal.Of(x[i]);
      });
      sums[c] = sum;
      sums[channels + c] = product;
      Store(product, gradients_beta, &gradients[c]);
      Store(sum, gradients_beta, &gradients[channels + c]);
    }
    return {};
  }

  Status NormaliseBackwardBySums(BatchSize batch,
                                 const Normalisation& normalisation,
                                 const float* x, const float* dy,
                                 const double* sums, std::int64_t count,
                                 const float* parameters,
                                 const float* statistics, float beta,
                                 float* dx) override {
    const std::int64_t channels = normalisation.extent.channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const Normal normal(normalisation, statistics, c);
      const double scale = double{parameters[c]} * normal.inverse;
      const double sum = sums[c] / static_cast<double>(count);
      const double product = sums[channels + c] / static_cast<double>(count);
      ForEachOfChannel(batch, normalisation.extent, c, [&](std::int64_t i) {
        Store(scale * (double{dy[i]} - sum - normal.Of(x[i]) * product), beta,
              &dx[i]);
      });
    }
    return {};
  }

  Status UpdateRunning(const Normalisation& normalisation,
                       const float* statistics, std::int64_t count,
                       float momentum, float* running) override {
    const std::int64_t channels = normalisation.extent.channels;
    const auto n = static_cast<float>(count);
    const float unbiased = count > 1 ? n / (n - 1) : 1.0F;
    for (std::int64_t i = 0; i < 2 * channels; ++i) {
      const float now = statistics[i] * (i < channels ? 1.0F : unbiased);
      running[i] += momentum * (now - running[i]);
    }
    return {};
  }

  Status AddBias(BatchSize batch, const ImageExtent& extent, const float* bias,
                 float* y) override {
    for (std::int64_t i = 0; i < batch.count() * extent.channels; ++i) {
      const float value = bias[i % extent.channels];
      float* const plane = y + i * extent.pixels();
      for (std::int64_t p = 0; p < extent.pixels(); ++p) plane[p] += value;
    }
    return {};
  }

  Status BiasBackward(BatchSize batch, const ImageExtent& extent,
                      const float* dy, float beta, float* dbias) override {
    for (std::int64_t c = 0; c < extent.channels; ++c) {
      double sum = 0;
      ForEachOfChannel(batch, extent, c,
                       [&](std::int64_t i) { sum += double{dy[i]}; });
      Store(sum, beta, &dbias[c]);
    }
    return {};
  }

  Status Blend(BatchSize batch, std::int64_t elements, float alpha,
               const float* a, float beta, float* out) override {
    return Computed([&] {
      const memory::desc row = FloatRow(batch.count() * elements);
      onednn::Blend(runtime_, row, row).Run(Writable(a), out, alpha, beta);
    });
  }

  Status Update(std::int64_t count, const UpdateRule& rule,
                const float* gradients, float* velocities,
                float* weights) override {
    const BatchSize one(1);
    if (velocities != nullptr) {
      UCUDNN_RETURN_IF_ERROR(
          Blend(one, count, 1.0F, gradients, rule.momentum, velocities));
      gradients = velocities;
    }
    return Blend(one, count, -rule.rate, gradients, 1.0F, weights);
  }

  Status SoftmaxLoss(BatchSize batch, const ImageExtent& extent, const float* x,
                     const std::int32_t* labels, float scale, float* dx,
                     float* probabilities) override {
    return Computed([&] {
      constexpr int kChannels = 1;
      const memory::desc form = Form(batch, extent);
      Execute(dnnl::softmax_forward(
                  {{dnnl::prop_kind::forward_inference, form, kChannels},
                   runtime_.engine}),
              {{DNNL_ARG_SRC, Of(form, x)}, {DNNL_ARG_DST, Of(form, dx)}});
      const std::int64_t pixels = extent.pixels();
      for (std::int64_t i = 0; i < batch.count() * extent.elements(); ++i) {
        dx[i] *= scale;
      }
      for (std::int64_t i = 0; i < batch.count() * pixels; ++i) {
        float& value = dx[(i / pixels * extent.channels + labels[i]) * pixels +
                          i % pixels];
        probabilities[i] = value / scale;
        value -= scale;
      }
    });
  }

  Status Dropout(BatchSize batch, std::int64_t elements,
                 const DropoutChoice& choice, const float* x, float* y,
                 std::uint8_t* mask) override {
    const std::uint32_t seed = DropoutSeed(choice);
    const std::uint32_t threshold = DropoutThreshold(choice.ratio);
    const auto factor = static_cast<float>(1 / (1 - choice.ratio));
    for (std::int64_t i = 0; i < batch.count() * elements; ++i) {
      const bool keeps =
          DropoutHash(static_cast<std::uint32_t>(i), seed) >= threshold;
      mask[i] = keeps ? 1 : 0;
      y[i] = keeps ? x[i] * factor : 0.0F;
    }
    return {};
  }

  Status DropoutBackward(BatchSize batch, std::int64_t elements, double ratio,
                         const float* dy, const std::uint8_t* mask,
                         float* dx) override {
    const auto factor = static_cast<float>(1 / (1 - ratio));
    for (std::int64_t i = 0; i < batch.count() * elements; ++i) {
      dx[i] = mask[i] != 0 ? dy[i] * factor : 0.0F;
    }
    return {};
  }

 private:
  // A pool as oneDNN describes it, in two dimensions or three.
  struct PoolForms {
    PoolForms(BatchSize batch, const Pooling& pooling)
        : algorithm(AlgorithmOf(pooling.kind)) {
      const auto inputs = pooling.input.axes();
      const auto outputs = pooling.output.axes();
      memory::dims from = {batch.count(), pooling.input.channels};
      memory::dims to = {batch.count(), pooling.output.channels};
      for (std::size_t axis = pooling.of_volumes() ? 0 : 1; axis < 3; ++axis) {
        const Window& w = pooling.windows[axis];
        from.push_back(inputs[axis]);
        to.push_back(outputs[axis]);
        strides.push_back(w.stride);
        kernel.push_back(w.extent);
        before.push_back(w.before);
        // The padding at the far side that makes the windows fit.
        after.push_back((outputs[axis] - 1) * w.stride + w.extent -
                        inputs[axis] - w.before);
      }
      const auto packed = pooling.of_volumes() ? memory::format_tag::ncdhw
                                               : memory::format_tag::nchw;
      in = {from, memory::data_type::f32, packed};
      out = {to, memory::data_type::f32, packed};
    }
    dnnl::algorithm algorithm;
    memory::desc in;
    memory::desc out;
    memory::dims strides;
    memory::dims kernel;
    memory::dims before;
    memory::dims after;
  };

  memory Of(const memory::desc& form, const void* data) const {
    return {form, runtime_.engine, Writable(data)};
  }

  void Execute(const dnnl::primitive& primitive,
               const std::unordered_map<int, memory>& arguments) const {
    primitive.execute(runtime_.stream, arguments);
  }

  template <class Body>
  Status Computed(Body&& body) const {
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      body();
      return {};
    });
  }

  // out = body's result + beta out.
  template <class Body>
  Status Summed(std::int64_t count, float beta, float* out, Body&& body) const {
    return Computed([&] {
      if (beta == 0.0F) return body(out);
      std::vector<float> result(static_cast<std::size_t>(count));
      body(result.data());
      const memory::desc row = FloatRow(count);
      onednn::Blend(runtime_, row, row).Run(result.data(), out, 1.0F, beta);
    });
  }

  dnnl::eltwise_forward::primitive_desc ReluForward(
      const memory::desc& form) const {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu,
             form, 0.0F},
            runtime_.engine};
  }

  dnnl::pooling_forward::primitive_desc PoolForward(
      const PoolForms& forms, dnnl::prop_kind kind) const {
    return {{kind, forms.algorithm, forms.in, forms.out, forms.strides,
             forms.kernel, forms.before, forms.after},
            runtime_.engine};
  }

  dnnl::batch_normalization_forward::primitive_desc NormaliseForward(
      dnnl::prop_kind kind, dnnl::normalization_flags flags,
      const memory::desc& form, double epsilon) const {
    return {{kind, form, static_cast<float>(epsilon), flags}, runtime_.engine};
  }

  // Reads the statistics with the flag use_global_stats, else writes them.
  Status NormaliseWith(dnnl::prop_kind kind, dnnl::normalization_flags flags,
                       BatchSize batch, const Normalisation& normalisation,
                       const float* x, const float* parameters, float* y,
                       const float* statistics) const {
    return Computed([&] {
      const std::int64_t channels = normalisation.extent.channels;
      const memory::desc form = Form(batch, normalisation.extent);
      const memory::desc row = FloatRow(channels);
      Execute(dnnl::batch_normalization_forward(
                  NormaliseForward(kind, flags, form, normalisation.epsilon)),
              {{DNNL_ARG_SRC, Of(form, x)},
               {DNNL_ARG_DST, Of(form, y)},
               {DNNL_ARG_MEAN, Of(row, statistics)},
               {DNNL_ARG_VARIANCE, Of(row, statistics + channels)},
               {DNNL_ARG_SCALE, Of(row, parameters)},
               {DNNL_ARG_SHIFT, Of(row, parameters + channels)}});
    });
  }

  const Runtime& runtime_;
};

}  // namespace
}  // namespace onednn

std::unique_ptr<Operators> OpenOneDnnOperators(Device& device) {
  const onednn::Runtime* runtime = onednn::RuntimeOf(device);
  if (runtime == nullptr) return nullptr;
  return std::make_unique<onednn::OneDnnOperators>(*runtime);
}

}  // namespace ucudnn
