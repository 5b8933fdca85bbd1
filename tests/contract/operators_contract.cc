#include "tests/contract/operators_contract.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/contract/opened_devices.h"

namespace ucudnn::test {
namespace {

using Values = std::vector<float>;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr float kTolerance = 2e-5F;

Values Random(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Values values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

// old[i] + values[i] if beta is 1, values[i] if it is 0.
Values Plus(Values values, const Values& old, float beta) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += beta * old[i];
  return values;
}

// A normalisation of some images, in double precision.
struct NormalisationCase {
  explicit NormalisationCase(std::size_t images) {
    const auto channels =
        static_cast<std::size_t>(normalisation.extent.channels);
    const auto pixels = static_cast<std::size_t>(normalisation.extent.pixels());
    x = Random(images * channels * pixels, 8);
    dy = Random(x.size(), 9);
    old = Random(x.size(), 10);
    parameters = Random(2 * channels, 11);
    old_gradients = Random(2 * channels, 12);
    y.resize(x.size());
    dx.resize(x.size());
    gradients.resize(2 * channels);
    for (std::size_t c = 0; c < channels; ++c) {
      std::vector<std::size_t> at;
      for (std::size_t n = 0; n < images; ++n) {
        for (std::size_t p = 0; p < pixels; ++p) {
          at.push_back((n * channels + c) * pixels + p);
        }
      }
      Differentiate(c, channels, at);
    }
  }

  Normalisation normalisation = {.extent = {6, 5, 4}, .epsilon = 1e-3};
  Values x, dy, old, parameters, old_gradients;
  Values y, dx, gradients;
  std::vector<double> means, variances;

 private:
  void Differentiate(std::size_t c, std::size_t channels,
                     const std::vector<std::size_t>& at) {
    const auto count = static_cast<double>(at.size());
    double mean = 0;
    double variance = 0;
    for (const std::size_t i : at) mean += double{x[i]} / count;
    for (const std::size_t i : at) {
      variance += (double{x[i]} - mean) * (double{x[i]} - mean) / count;
    }
    means.push_back(mean);
    variances.push_back(variance);
    const double inverse = 1 / std::sqrt(variance + normalisation.epsilon);
    double sum = 0;
    double product = 0;
    for (const std::size_t i : at) {
      const double normal = (double{x[i]} - mean) * inverse;
      y[i] = static_cast<float>(normal * double{parameters[c]} +
                                double{parameters[channels + c]});
      sum += double{dy[i]};
      product += double{dy[i]} * normal;
    }
    for (const std::size_t i : at) {
      const double normal = (double{x[i]} - mean) * inverse;
      dx[i] = static_cast<float>(
          double{parameters[c]} * inverse *
          (double{dy[i]} - sum / count - normal * product / count));
    }
    gradients[c] = static_cast<float>(product);
    gradients[channels + c] = static_cast<float>(sum);
  }
};

struct PoolReference {
  Values y;
  Values dx;
};

// visit(pixel) for those of the input that a window of output pixel `i` covers.
template <class Visit>
void ForEachCovered(const Pooling& pooling, std::int64_t i,
                    const Visit& visit) {
  const auto in = pooling.input.axes();
  const auto out = pooling.output.axes();
  const std::array<std::int64_t, 3> at = {i / out[2] / out[1],
                                          i / out[2] % out[1], i % out[2]};
  const auto& w = pooling.windows;
  for (std::int64_t k = 0; k < w[0].extent * w[1].extent * w[2].extent; ++k) {
    const std::array<std::int64_t, 3> step = {k / w[2].extent / w[1].extent,
                                              k / w[2].extent % w[1].extent,
                                              k % w[2].extent};
    std::int64_t pixel = 0;
    bool inside = true;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t p =
          at[axis] * w[axis].stride - w[axis].before + step[axis];
      inside = inside && p >= 0 && p < in[axis];
      pixel = pixel * in[axis] + p;
    }
    if (inside) visit(pixel);
  }
}

PoolReference ReferencePool(const Pooling& pooling, std::int64_t planes,
                            const Values& x, const Values& dy) {
  PoolReference result{Values(dy.size()), Values(x.size())};
  const auto& w = pooling.windows;
  for (std::int64_t i = 0; i < std::ssize(dy); ++i) {
    const std::int64_t plane =
        i / pooling.output.pixels() * pooling.input.pixels();
    std::int64_t best = -1;
    double sum = 0;
    std::vector<std::size_t> inside;
    ForEachCovered(pooling, i % pooling.output.pixels(),
                   [&](std::int64_t pixel) {
                     const std::int64_t at = plane + pixel;
                     sum += double{x[std::size_t(at)]};
                     if (best < 0 || x[std::size_t(at)] > x[std::size_t(best)])
                       best = at;
                     inside.push_back(std::size_t(at));
                   });
    if (pooling.kind == Pooling::Kind::kMax) {
      result.y[std::size_t(i)] = x[std::size_t(best)];
      result.dx[std::size_t(best)] += dy[std::size_t(i)];
    } else {
      const auto divisor =
          static_cast<double>(pooling.kind == Pooling::Kind::kAverage
                                  ? w[0].extent * w[1].extent * w[2].extent
                                  : std::ssize(inside));
      result.y[std::size_t(i)] = static_cast<float>(sum / divisor);
      for (const std::size_t at : inside) {
        result.dx[at] += dy[std::size_t(i)] / static_cast<float>(divisor);
      }
    }
  }
  EXPECT_EQ(planes * pooling.input.pixels(), std::ssize(x));
  return result;
}

}  // namespace

void OperatorsContractTest::SetUp() {
  auto device = GetParam().open();
  if (!device && device.error().code == Code::kUnavailable) {
    GTEST_SKIP() << device.error().message;
  }
  ASSERT_OK(device);
  device_ = *std::move(device);
  auto operators = GetParam().operators(*device_);
  ASSERT_OK(operators);
  operators_ = *std::move(operators);
}

void* OperatorsContractTest::PutBytes(const void* data, std::size_t size) {
  const Bytes bytes(static_cast<std::int64_t>(size));
  auto buffer = device_->Allocate(bytes);
  EXPECT_TRUE(buffer.has_value());
  EXPECT_TRUE(device_->Upload(buffer->data(), data, bytes).has_value());
  return buffers_.emplace_back(*std::move(buffer)).data();
}

float* OperatorsContractTest::Nan(std::size_t count) {
  return Put(Values(count, std::numeric_limits<float>::quiet_NaN()));
}

void OperatorsContractTest::GetBytes(const void* data, void* to,
                                     std::size_t size) {
  EXPECT_TRUE(device_->Synchronize().has_value());
  EXPECT_TRUE(
      device_->Download(to, data, Bytes(static_cast<std::int64_t>(size)))
          .has_value());
}

TEST_P(OperatorsContractTest, RectifiesAlsoInPlace) {
  const Values x = Random(3 * 70, 1);
  Values expected = x;
  for (float& value : expected) value = std::max(value, 0.0F);
  float* const in = Put(x);
  float* const out = Nan(x.size());
  ASSERT_OK(operators_->Relu(BatchSize(3), 70, in, out));
  EXPECT_EQ(Get(out, x.size()), expected);
  ASSERT_OK(operators_->Relu(BatchSize(3), 70, in, in));
  EXPECT_EQ(Get(in, x.size()), expected);
}

TEST_P(OperatorsContractTest, PassesGradientsWhereTheOutputIsPositive) {
  Values y = Random(3 * 70, 2);
  for (float& value : y) value = std::max(value, 0.0F);
  const Values dy = Random(y.size(), 3);
  const Values old = Random(y.size(), 4);
  Values expected = dy;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0) expected[i] = 0;
  }
  float* const gradient = Put(dy);
  float* const fresh = Nan(y.size());
  float* const summed = Put(old);
  const float* const output = Put(y);
  ASSERT_OK(
      operators_->ReluBackward(BatchSize(3), 70, output, gradient, 0, fresh));
  ASSERT_OK(
      operators_->ReluBackward(BatchSize(3), 70, output, gradient, 1, summed));
  EXPECT_EQ(Get(fresh, y.size()), expected);
  EXPECT_THAT(Get(summed, y.size()),
              Pointwise(FloatNear(kTolerance), Plus(expected, old, 1)));
  ASSERT_OK(operators_->ReluBackward(BatchSize(3), 70, output, gradient, 0,
                                     gradient));
  EXPECT_EQ(Get(gradient, y.size()), expected);
}

// f(x) and f'(x) in double precision.
std::pair<double, double> ReferenceActivation(const Activation& activation,
                                              double x) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  const double line = double{activation.alpha} * x + double{activation.beta};
  switch (activation.kind) {
    case Activation::Kind::kSigmoid:
      return {sigmoid, sigmoid * (1 - sigmoid)};
    case Activation::Kind::kHardSigmoid:
      return {std::clamp(line, 0.0, 1.0),
              line > 0 && line < 1 ? double{activation.alpha} : 0.0};
    case Activation::Kind::kSwish:
      return {x * sigmoid, sigmoid + x * sigmoid * (1 - sigmoid)};
    case Activation::Kind::kHardSwish:
      break;
  }
  return {x * std::clamp(x / 6 + 0.5, 0.0, 1.0), x < -3  ? 0.0
                                                 : x > 3 ? 1.0
                                                         : x / 3 + 0.5};
}

TEST_P(OperatorsContractTest, ActivatesAndDifferentiates) {
  Values x = Random(3 * 70, 24);
  for (float& value : x) value *= 8;  // beyond where the hard ones bend
  const Values dy = Random(x.size(), 25);
  const Values old = Random(x.size(), 26);
  for (const Activation& activation :
       {Activation{Activation::Kind::kSigmoid},
        Activation{Activation::Kind::kHardSigmoid, 0.25F, 0.5F},
        Activation{Activation::Kind::kSwish},
        Activation{Activation::Kind::kHardSwish}}) {
    Values y(x.size());
    Values dx(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto [value, slope] = ReferenceActivation(activation, double{x[i]});
      y[i] = static_cast<float>(value);
      dx[i] = static_cast<float>(double{dy[i]} * slope);
    }
    float* const in = Put(x);
    float* const out = Nan(x.size());
    ASSERT_OK(operators_->Activate(BatchSize(3), 70, activation, in, out));
    EXPECT_THAT(Get(out, y.size()), Pointwise(FloatNear(kTolerance), y));
    const float* const saved = activation.saves_output() ? out : in;
    for (const float beta : {0.0F, 1.0F}) {
      float* const back = beta == 0 ? Nan(x.size()) : Put(old);
      ASSERT_OK(operators_->ActivateBackward(BatchSize(3), 70, activation,
                                             saved, Put(dy), beta, back));
      EXPECT_THAT(Get(back, dx.size()),
                  Pointwise(FloatNear(kTolerance), Plus(dx, old, beta)));
    }
    float* const gradient = Put(dy);
    ASSERT_OK(operators_->ActivateBackward(BatchSize(3), 70, activation, saved,
                                           gradient, 0, gradient));
    EXPECT_THAT(Get(gradient, dx.size()), Pointwise(FloatNear(kTolerance), dx));
    ASSERT_OK(operators_->Activate(BatchSize(3), 70, activation, in, in));
    EXPECT_THAT(Get(in, y.size()), Pointwise(FloatNear(kTolerance), y));
  }
}

TEST_P(OperatorsContractTest, CopiesPartsOfRows) {
  const Values from = Random(4 * 30, 27);
  const Values old = Random(4 * 50, 28);
  for (const float beta : {0.0F, 1.0F}) {
    Values expected = old;
    // Of each plane of 3 rows of 10, 2 rows of 6; to planes of 5 of 10.
    for (std::size_t plane = 0; plane < 4; ++plane) {
      for (std::size_t i = 0; i < 12; ++i) {
        const std::size_t row = i / 6 * 10 + i % 6;
        float& to = expected[plane * 50 + 14 + row];
        to = from[plane * 30 + 3 + row] + beta * to;
      }
    }
    float* const to = Put(old);
    ASSERT_OK(operators_->CopyRows(4, 2, 6, Put(from) + 3, {30, 10}, beta,
                                   to + 14, {50, 10}));
    EXPECT_EQ(Get(to, expected.size()), expected);
  }
}

TEST_P(OperatorsContractTest, MultipliesAndSumsProducts) {
  constexpr std::size_t kCount = 21;
  for (const std::size_t span : {std::size_t{1}, std::size_t{700}}) {
    const Values a = Random(kCount * span, 29);
    const Values b = Random(kCount, 30);
    const Values c = Random(a.size(), 31);
    const Values old = Random(a.size(), 32);
    Values product(a.size());
    Values sums(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      double sum = 0;
      for (std::size_t k = i * span; k < (i + 1) * span; ++k) {
        product[k] = a[k] * b[i];
        sum += double{a[k]} * double{c[k]};
      }
      sums[i] = static_cast<float>(sum);
    }
    for (const float beta : {0.0F, 1.0F}) {
      float* const out = beta == 0 ? Nan(a.size()) : Put(old);
      ASSERT_OK(operators_->Multiply(std::int64_t(a.size()), std::int64_t(span),
                                     Put(a), Put(b), beta, out));
      EXPECT_THAT(Get(out, a.size()),
                  Pointwise(FloatNear(kTolerance), Plus(product, old, beta)));
      float* const summed = beta == 0 ? Nan(kCount) : Put(b);
      ASSERT_OK(operators_->SumProducts(kCount, std::int64_t(span), Put(a),
                                        Put(c), beta, summed));
      EXPECT_THAT(Get(summed, kCount),
                  Pointwise(FloatNear(kTolerance), Plus(sums, b, beta)));
    }
  }
}

// Of one axis, as ONNX defines it.
double ReferencePixel(const Resizing& resizing, const std::vector<double>& in,
                      std::int64_t o, std::int64_t out) {
  const auto size = std::ssize(in);
  const auto at = [&](double i) {
    return in[std::size_t(std::clamp(i, 0.0, double(size - 1)))];
  };
  double place = double(o) * double(size) / double(out);
  if (resizing.place == Resizing::Place::kHalfPixel) {
    place = (double(o) + 0.5) * double(size) / double(out) - 0.5;
  } else if (resizing.place == Resizing::Place::kAlignCorners) {
    place = out == 1 ? 0 : double(o) * double(size - 1) / double(out - 1);
  }
  if (resizing.mode == Resizing::Mode::kLinear) {
    const double part = place - std::floor(place);
    return (1 - part) * at(std::floor(place)) +
           part * at(std::floor(place) + 1);
  }
  return at(resizing.rounds ? std::ceil(place - 0.5) : std::floor(place));
}

TEST_P(OperatorsContractTest, ResizesAndPassesGradientsBack) {
  using enum Resizing::Mode;
  using enum Resizing::Place;
  for (const auto& [mode, place, rounds] :
       {std::tuple(kNearest, kAsymmetric, false),
        std::tuple(kNearest, kHalfPixel, true),
        std::tuple(kLinear, kHalfPixel, true),
        std::tuple(kLinear, kAlignCorners, true)}) {
    // Larger in height, smaller in width; of volumes also in depth.
    for (const auto& [depth, pooled] : {std::pair(1, 1), {2, 4}, {5, 3}}) {
      const Resizing resizing = {
          mode, place, rounds, {3, 4, 9, depth}, {3, 8, 5, pooled}};
      const Values x = Random(std::size_t(2 * 3 * depth * 4 * 9), 36);
      const Values dy = Random(std::size_t(2 * 3 * pooled * 8 * 5), 37);
      const Values old = Random(x.size(), 38);
      Values y(dy.size());
      for (std::size_t i = 0; i < y.size(); ++i) {
        std::vector<double> slices;
        for (std::int64_t d = 0; d < depth; ++d) {
          std::vector<double> rows;
          for (std::int64_t h = 0; h < 4; ++h) {
            const std::int64_t plane = std::int64_t(i) / 40 / pooled;
            const auto begin = x.begin() + ((plane * depth + d) * 4 + h) * 9;
            rows.push_back(ReferencePixel(resizing,
                                          std::vector<double>(begin, begin + 9),
                                          std::int64_t(i % 5), 5));
          }
          slices.push_back(
              ReferencePixel(resizing, rows, std::int64_t(i / 5 % 8), 8));
        }
        y[i] = static_cast<float>(ReferencePixel(
            resizing, slices, std::int64_t(i) / 40 % pooled, pooled));
      }
      const float* const in = Put(x);
      float* const out = Nan(y.size());
      ASSERT_OK(operators_->Resize(BatchSize(2), resizing, in, out));
      EXPECT_THAT(Get(out, y.size()), Pointwise(FloatNear(kTolerance), y));
      // Resizing is linear, so one element's gradient is what it adds to each
      // y.
      Values dx(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        Values unit(x.size());
        unit[i] = 1;
        float* const moved = Nan(y.size());
        ASSERT_OK(operators_->Resize(BatchSize(2), resizing, Put(unit), moved));
        double sum = 0;
        const Values added = Get(moved, y.size());
        for (std::size_t k = 0; k < y.size(); ++k) {
          sum += double{added[k]} * double{dy[k]};
        }
        dx[i] = static_cast<float>(sum);
      }
      for (const float beta : {0.0F, 1.0F}) {
        float* const back = beta == 0 ? Nan(x.size()) : Put(old);
        ASSERT_OK(operators_->ResizeBackward(BatchSize(2), resizing, Put(dy),
                                             beta, back));
        EXPECT_THAT(Get(back, dx.size()),
                    Pointwise(FloatNear(kTolerance), Plus(dx, old, beta)));
      }
    }
  }
}

// The gradient is that of the loss "sum of dy * y", by central differences.
TEST_P(OperatorsContractTest, NormalisesLocallyAndDifferentiates) {
  for (const std::int64_t size : {5, 4}) {
    const LocalResponse response = {.extent = {9, 3, 2},
                                    .size = size,
                                    .alpha = 0.5,
                                    .beta = 0.75,
                                    .bias = 2};
    const std::size_t pixels = 6;
    const std::size_t channels = 9;
    const Values x = Random(2 * channels * pixels, 33);
    const Values dy = Random(x.size(), 34);
    const Values old = Random(x.size(), 35);
    const auto value = [&](const std::vector<double>& in, std::size_t i) {
      const auto c = static_cast<std::int64_t>(i / pixels % channels);
      double squares = 0;
      for (std::int64_t k = c - (size - 1) / 2; k <= c + size / 2; ++k) {
        if (k < 0 || k >= std::int64_t(channels)) continue;
        const double other =
            in[std::size_t(std::int64_t(i) + (k - c) * std::int64_t(pixels))];
        squares += other * other;
      }
      return in[i] * std::pow(2 + 0.5 / double(size) * squares, -0.75);
    };
    std::vector<double> precise(x.begin(), x.end());
    Values y(x.size());
    Values dx(x.size());
    const auto loss = [&] {
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum += double{dy[i]} * value(precise, i);
      }
      return sum;
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = static_cast<float>(value(precise, i));
      constexpr double kStep = 1e-5;
      const double at = precise[i];
      precise[i] = at + kStep;
      const double above = loss();
      precise[i] = at - kStep;
      const double below = loss();
      precise[i] = at;
      dx[i] = static_cast<float>((above - below) / (2 * kStep));
    }
    const float* const in = Put(x);
    float* const out = Nan(x.size());
    ASSERT_OK(operators_->NormaliseLocally(BatchSize(2), response, in, out));
    EXPECT_THAT(Get(out, y.size()), Pointwise(FloatNear(kTolerance), y));
    for (const float beta : {0.0F, 1.0F}) {
      float* const back = beta == 0 ? Nan(x.size()) : Put(old);
      ASSERT_OK(operators_->NormaliseLocallyBackward(BatchSize(2), response, in,
                                                     out, Put(dy), beta, back));
      EXPECT_THAT(Get(back, dx.size()),
                  Pointwise(FloatNear(kTolerance), Plus(dx, old, beta)));
    }
  }
}

// Of images and of volumes: windows that overlap or do not, of one pixel of an
// axis or of all of it.
std::vector<Pooling> Poolings() {
  const Window three = {.extent = 3, .stride = 2, .before = 1, .after = 1};
  const Window two = {.extent = 2, .stride = 2};
  const Window all = {.extent = 7, .stride = 1};
  std::vector<Pooling> poolings;
  const auto add = [&](std::int64_t depth, std::int64_t height,
                       std::int64_t width,
                       const std::array<Window, 3>& windows) {
    Pooling& pooling = poolings.emplace_back();
    pooling.input = {5, height, width, depth};
    pooling.output = {5, windows[1].OutputOf(height),
                      windows[2].OutputOf(width), windows[0].OutputOf(depth)};
    pooling.windows = windows;
  };
  add(1, 7, 7, {Window(), three, three});
  add(1, 8, 8, {Window(), two, two});
  add(1, 7, 7, {Window(), all, all});
  add(1, 7, 8, {Window(), three, two});
  add(5, 7, 8, {three, three, two});
  add(4, 6, 8, {two, two, two});
  add(7, 7, 7, {all, all, all});
  add(3, 8, 7, {Window(), two, three});
  return poolings;
}

TEST_P(OperatorsContractTest, PoolsAndPassesGradientsBack) {
  for (const Pooling::Kind kind : {Pooling::Kind::kMax, Pooling::Kind::kAverage,
                                   Pooling::Kind::kAverageInside}) {
    for (Pooling pooling : Poolings()) {
      pooling.kind = kind;
      const std::int64_t planes = 2 * pooling.input.channels;
      const Values x = Random(std::size_t(planes * pooling.input.pixels()), 5);
      const Values dy =
          Random(std::size_t(planes * pooling.output.pixels()), 6);
      const Values old = Random(x.size(), 7);
      const PoolReference expected = ReferencePool(pooling, planes, x, dy);
      const float* const in = Put(x);
      float* const out = Nan(dy.size());
      ASSERT_OK(operators_->Pool(BatchSize(2), pooling, in, out));
      EXPECT_THAT(Get(out, dy.size()),
                  Pointwise(FloatNear(kTolerance), expected.y));
      for (const float beta : {0.0F, 1.0F}) {
        float* const dx = beta == 0 ? Nan(x.size()) : Put(old);
        const bool reads = kind == Pooling::Kind::kMax;
        ASSERT_OK(operators_->PoolBackward(
            BatchSize(2), pooling, reads ? in : nullptr, reads ? out : nullptr,
            Put(dy), beta, dx));
        EXPECT_THAT(Get(dx, x.size()), Pointwise(FloatNear(kTolerance),
                                                 Plus(expected.dx, old, beta)));
      }
    }
  }
}

TEST_P(OperatorsContractTest, NormalisesAndDifferentiates) {
  const NormalisationCase c(3);
  const Normalisation& n = c.normalisation;
  const auto channels = static_cast<std::size_t>(n.extent.channels);
  const float* const in = Put(c.x);
  const float* const weights = Put(c.parameters);
  float* const out = Nan(c.x.size());
  float* const statistics = Nan(2 * channels);
  ASSERT_OK(
      operators_->Normalise(BatchSize(3), n, in, weights, out, statistics));
  EXPECT_THAT(Get(out, c.x.size()), Pointwise(FloatNear(1e-4F), c.y));
  for (const float beta : {0.0F, 1.0F}) {
    float* const back = beta == 0 ? Nan(c.x.size()) : Put(c.old);
    float* const sums = beta == 0 ? Nan(2 * channels) : Put(c.old_gradients);
    ASSERT_OK(operators_->NormaliseBackward(BatchSize(3), n, in, Put(c.dy),
                                            weights, statistics, beta, back,
                                            beta, sums));
    EXPECT_THAT(Get(back, c.x.size()),
                Pointwise(FloatNear(1e-4F), Plus(c.dx, c.old, beta)));
    EXPECT_THAT(
        Get(sums, 2 * channels),
        Pointwise(FloatNear(1e-4F), Plus(c.gradients, c.old_gradients, beta)));
  }
}

// Images 0 and 1 on one device, image 2 on another: their sums are added on the
// host, as ranks do.
TEST_P(OperatorsContractTest, NormalisesImagesOfSeveralDevices) {
  const NormalisationCase c(3);
  const Normalisation& n = c.normalisation;
  const auto channels = static_cast<std::size_t>(n.extent.channels);
  const auto image = static_cast<std::size_t>(n.extent.elements());
  const std::int64_t count = 3 * n.extent.pixels();
  struct Share {
    BatchSize images;
    std::size_t first;
    const float *x, *dy;
    double *sums, *back_sums;
    float *y, *statistics;
  };
  std::vector<Share> shares;
  const auto part = [&](const Values& all, std::size_t first,
                        std::size_t images) {
    const auto begin = all.begin() + std::ptrdiff_t(first * image);
    return Values(begin, begin + std::ptrdiff_t(images * image));
  };
  for (const auto& [first, images] :
       {std::pair<std::size_t, std::size_t>(0, 2), {2, 1}}) {
    shares.push_back(
        {BatchSize(std::int64_t(images)), first, Put(part(c.x, first, images)),
         Put(part(c.dy, first, images)), Put(std::vector<double>(2 * channels)),
         Put(std::vector<double>(2 * channels)), Nan(images * image),
         Nan(2 * channels)});
  }
  const auto exchange = [&](double* Share::*sums) {
    std::vector<double> total(2 * channels);
    for (const Share& share : shares) {
      const std::vector<double> mine = Get(share.*sums, total.size());
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += mine[i];
    }
    for (Share& share : shares) share.*sums = Put(total);
  };
  const float* const weights = Put(c.parameters);
  for (const Share& s : shares) {
    ASSERT_OK(operators_->SumForNormalise(s.images, n.extent, s.x, s.sums));
  }
  exchange(&Share::sums);
  Values gradients = c.old_gradients;
  for (const Share& s : shares) {
    ASSERT_OK(operators_->NormaliseBySums(s.images, n, s.x, s.sums, count,
                                          weights, s.y, s.statistics));
    const auto images = static_cast<std::size_t>(s.images.count());
    EXPECT_THAT(Get(s.y, images * image),
                Pointwise(FloatNear(kTolerance), part(c.y, s.first, images)));
    // One begins the gradients, the other adds to them.
    float* const mine = s.first == 0 ? Nan(2 * channels) : Put(c.old_gradients);
    ASSERT_OK(operators_->SumForNormaliseBackward(
        s.images, n, s.x, s.dy, s.statistics, s.back_sums,
        s.first == 0 ? 0.0F : 1.0F, mine));
    const Values got = Get(mine, 2 * channels);
    for (std::size_t i = 0; i < got.size(); ++i) gradients[i] += got[i];
  }
  EXPECT_THAT(gradients,
              Pointwise(FloatNear(1e-4F),
                        Plus(c.gradients,
                             Plus(c.old_gradients, c.old_gradients, 1), 1)));
  exchange(&Share::back_sums);
  for (const Share& s : shares) {
    const auto images = static_cast<std::size_t>(s.images.count());
    const Values old = part(c.old, s.first, images);
    for (const float beta : {0.0F, 1.0F}) {
      float* const dx = beta == 0 ? Nan(old.size()) : Put(old);
      ASSERT_OK(operators_->NormaliseBackwardBySums(s.images, n, s.x, s.dy,
                                                    s.back_sums, count, weights,
                                                    s.statistics, beta, dx));
      EXPECT_THAT(Get(dx, old.size()),
                  Pointwise(FloatNear(kTolerance),
                            Plus(part(c.dx, s.first, images), old, beta)));
    }
  }
}

TEST_P(OperatorsContractTest, KeepsRunningStatisticsAndNormalisesByThem) {
  const NormalisationCase c(3);
  const Normalisation& n = c.normalisation;
  const auto channels = static_cast<std::size_t>(n.extent.channels);
  const std::int64_t count = 3 * n.extent.pixels();
  const float* const in = Put(c.x);
  const float* const weights = Put(c.parameters);
  float* const statistics = Nan(2 * channels);
  ASSERT_OK(operators_->Normalise(BatchSize(3), n, in, weights, Nan(c.x.size()),
                                  statistics));
  Values before = Random(2 * channels, 20);
  for (std::size_t i = channels; i < before.size(); ++i) before[i] += 1.5F;
  Values after(before.size());
  for (std::size_t i = 0; i < channels; ++i) {
    const double unbiased = c.variances[i] * double(count) / double(count - 1);
    after[i] = static_cast<float>(0.75 * double{before[i]} + 0.25 * c.means[i]);
    after[channels + i] = static_cast<float>(
        0.75 * double{before[channels + i]} + 0.25 * unbiased);
  }
  float* const running = Put(before);
  ASSERT_OK(operators_->UpdateRunning(n, statistics, count, 0.25F, running));
  EXPECT_THAT(Get(running, after.size()),
              Pointwise(FloatNear(kTolerance), after));
  Values y(c.x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t channel =
        i / static_cast<std::size_t>(n.extent.pixels()) % channels;
    y[i] = static_cast<float>(
        (double{c.x[i]} - double{after[channel]}) /
            std::sqrt(double{after[channels + channel]} + n.epsilon) *
            double{c.parameters[channel]} +
        double{c.parameters[channels + channel]});
  }
  float* const out = Nan(y.size());
  ASSERT_OK(operators_->NormaliseByRunning(BatchSize(3), n, in, weights,
                                           running, out));
  EXPECT_THAT(Get(out, y.size()), Pointwise(FloatNear(1e-4F), y));
}

TEST_P(OperatorsContractTest, UpdatesWithAndWithoutMomentum) {
  const Values gradients = Random(1000, 21);
  const Values velocities = Random(1000, 22);
  const Values weights = Random(1000, 23);
  Values v(1000);
  Values moved(1000);
  Values plain(1000);
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] =
        static_cast<float>(0.9 * double{velocities[i]} + double{gradients[i]});
    moved[i] = static_cast<float>(double{weights[i]} - 0.1 * double{v[i]});
    plain[i] =
        static_cast<float>(double{weights[i]} - 0.1 * double{gradients[i]});
  }
  float* const velocity = Put(velocities);
  float* const weight = Put(weights);
  ASSERT_OK(operators_->Update(1000, {.rate = 0.1F, .momentum = 0.9F},
                               Put(gradients), velocity, weight));
  EXPECT_THAT(Get(velocity, 1000), Pointwise(FloatNear(kTolerance), v));
  EXPECT_THAT(Get(weight, 1000), Pointwise(FloatNear(kTolerance), moved));
  float* const other = Put(weights);
  ASSERT_OK(
      operators_->Update(1000, {.rate = 0.1F}, Put(gradients), nullptr, other));
  EXPECT_THAT(Get(other, 1000), Pointwise(FloatNear(kTolerance), plain));
}

TEST_P(OperatorsContractTest, AddsBiasesAndSumsTheirGradients) {
  const ImageExtent extent = {6, 5, 4};
  const Values y = Random(2 * 6 * 20, 13);
  const Values bias = Random(6, 14);
  const Values old = Random(6, 15);
  Values expected = y;
  Values sums(6);
  for (std::size_t i = 0; i < y.size(); ++i) {
    expected[i] += bias[i / 20 % 6];
    sums[i / 20 % 6] += y[i];
  }
  float* const out = Put(y);
  const float* const dy = Put(y);
  ASSERT_OK(operators_->AddBias(BatchSize(2), extent, Put(bias), out));
  EXPECT_THAT(Get(out, y.size()), Pointwise(FloatNear(kTolerance), expected));
  for (const float beta : {0.0F, 1.0F}) {
    float* const gradient = beta == 0 ? Nan(6) : Put(old);
    ASSERT_OK(
        operators_->BiasBackward(BatchSize(2), extent, dy, beta, gradient));
    EXPECT_THAT(Get(gradient, 6),
                Pointwise(FloatNear(kTolerance), Plus(sums, old, beta)));
  }
}

TEST_P(OperatorsContractTest, BlendsWithAnyFactors) {
  const Values a = Random(210, 16);
  const Values b = Random(210, 17);
  Values expected(210);
  for (std::size_t i = 0; i < a.size(); ++i) {
    expected[i] = -0.25F * a[i] + b[i];
  }
  float* const summed = Put(b);
  float* const copied = Nan(210);
  ASSERT_OK(operators_->Blend(BatchSize(3), 70, -0.25F, Put(a), 1, summed));
  ASSERT_OK(operators_->Blend(BatchSize(3), 70, 1, Put(a), 0, copied));
  EXPECT_THAT(Get(summed, 210), Pointwise(FloatNear(kTolerance), expected));
  EXPECT_EQ(Get(copied, 210), a);
}

TEST_P(OperatorsContractTest, ComputesTheLossOfEveryPixel) {
  for (const ImageExtent& extent :
       {ImageExtent{10, 1, 1}, ImageExtent{10, 2, 3}}) {
    const auto pixels = static_cast<std::size_t>(extent.pixels());
    const Values x = Random(3 * 10 * pixels, 18);
    const float scale = 1 / static_cast<float>(3 * pixels);
    std::vector<std::int32_t> labels;
    Values probabilities;
    Values dx(x.size());
    for (std::size_t i = 0; i < 3 * pixels; ++i) {
      labels.push_back(static_cast<std::int32_t>(i * 7 % 10));
      const auto at = [&](std::size_t c) {
        return (i / pixels * 10 + c) * pixels + i % pixels;
      };
      double sum = 0;
      for (std::size_t c = 0; c < 10; ++c) sum += std::exp(double{x[at(c)]});
      for (std::size_t c = 0; c < 10; ++c) {
        const double p = std::exp(double{x[at(c)]}) / sum;
        const bool right = c == static_cast<std::size_t>(labels.back());
        if (right) probabilities.push_back(static_cast<float>(p));
        dx[at(c)] = static_cast<float>(double{scale} * (p - (right ? 1 : 0)));
      }
    }
    float* const gradient = Nan(x.size());
    float* const given = Nan(labels.size());
    ASSERT_OK(operators_->SoftmaxLoss(BatchSize(3), extent, Put(x), Put(labels),
                                      scale, gradient, given));
    EXPECT_THAT(Get(gradient, x.size()), Pointwise(FloatNear(kTolerance), dx));
    EXPECT_THAT(Get(given, labels.size()),
                Pointwise(FloatNear(kTolerance), probabilities));
  }
}

TEST_P(OperatorsContractTest, DropsTheSameElementsInSubBatches) {
  constexpr std::int64_t kElements = 1000;
  const Values x = Random(4 * kElements, 19);
  const DropoutChoice choice = {.seed = 5, .first = 0, .ratio = 0.25};
  std::uint8_t* const mask = Put(std::vector<std::uint8_t>(4 * kElements, 7));
  const float* const in = Put(x);
  float* const whole = Nan(x.size());
  ASSERT_OK(
      operators_->Dropout(BatchSize(4), kElements, choice, in, whole, mask));
  const Values kept = Get(whole, x.size());
  const auto dropped = std::count(kept.begin(), kept.end(), 0.0F);
  EXPECT_NEAR(static_cast<double>(dropped), 1000, 120);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(kept[i], kept[i] == 0 ? 0 : x[i] / 0.75F, kTolerance);
  }
  float* const gradient = Nan(x.size());
  ASSERT_OK(operators_->DropoutBackward(BatchSize(4), kElements, 0.25, in, mask,
                                        gradient));
  EXPECT_EQ(Get(gradient, x.size()), kept);
  DropoutChoice last = choice;
  last.first = 3 * kElements;
  float* const part = Nan(kElements);
  ASSERT_OK(operators_->Dropout(BatchSize(1), kElements, last,
                                in + 3 * kElements, part, mask));
  EXPECT_EQ(Get(part, kElements),
            Values(kept.begin() + 3 * kElements, kept.end()));
}

}  // namespace ucudnn::test
